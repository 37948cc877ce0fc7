// A bulk load with gocql and its defaults: bulk PORT ROWS
//
// All requests are in flight at once.
package main

import (
	"fmt"
	"os"
	"strconv"
	"strings"

	"github.com/gocql/gocql"
)

func main() {
	port, err := strconv.Atoi(os.Args[1])
	check(err)
	rows, err := strconv.Atoi(os.Args[2])
	check(err)
	cluster := gocql.NewCluster("127.0.0.1")
	cluster.Port = port
	session, err := cluster.CreateSession()
	check(err)
	defer session.Close()
	check(session.Query("CREATE KEYSPACE bulk WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}").Exec())
	check(session.Query("CREATE TABLE bulk.t (k int PRIMARY KEY, v text)").Exec())
	value := strings.Repeat("x", 100)
	errors := make(chan error, rows)
	for k := 0; k < rows; k++ {
		go func(k int) {
			errors <- session.Query("INSERT INTO bulk.t (k, v) VALUES (?, ?)", k, value).Exec()
		}(k)
	}
	for k := 0; k < rows; k++ {
		check(<-errors)
	}
	var count int
	check(session.Query("SELECT count(*) FROM bulk.t").Scan(&count))
	if count != rows {
		check(fmt.Errorf("%d rows", count))
	}
}

func check(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
