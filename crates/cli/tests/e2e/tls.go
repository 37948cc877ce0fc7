// Connects over TLS with gocql: tls PORT DIR
package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"

	"github.com/gocql/gocql"
)

func connect(port int, options *gocql.SslOptions) error {
	cluster := gocql.NewCluster("127.0.0.1")
	cluster.Port = port
	cluster.SslOpts = options
	cluster.Authenticator = gocql.PasswordAuthenticator{Username: "ann", Password: "correct horse"}
	session, err := cluster.CreateSession()
	if err != nil {
		return err
	}
	defer session.Close()
	var version string
	return session.Query("SELECT release_version FROM system.local").Scan(&version)
}

func main() {
	port, err := strconv.Atoi(os.Args[1])
	if err != nil {
		panic(err)
	}
	file := func(name string) string { return filepath.Join(os.Args[2], name) }
	options := gocql.SslOptions{CaPath: file("ca.crt"), EnableHostVerification: true}
	if connect(port, nil) == nil || connect(port, &options) == nil {
		panic("a client was let in that should not be")
	}
	options.CertPath, options.KeyPath = file("client.crt"), file("client.key")
	if err := connect(port, &options); err != nil {
		panic(err)
	}
	fmt.Println("connected")
}
