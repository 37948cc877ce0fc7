// Transactions over several statements with gocql, run again after a conflict: transfers PORT
//
// The statements of a transaction may go through any server of the database.
package main

import (
	"errors"
	"fmt"
	"math/rand"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/gocql/gocql"
)

const runAgain = "aborted, run the transaction again: "

func endedWithoutEffect(err error) bool {
	var answer gocql.RequestError
	return errors.As(err, &answer) && answer.Code() == gocql.ErrCodeInvalid &&
		strings.Contains(answer.Message(), runAgain)
}

// runTransaction runs the body and commits; it runs it again if the transaction ended without
// effect. After another error of the commit its outcome may be unknown: ask
// SELECT outcome(transaction) before trying again.
func runTransaction(session *gocql.Session, attempts int, body func(gocql.UUID) error) error {
	for attempt := 0; ; attempt++ {
		var transaction gocql.UUID
		if err := session.Query("START DETACHED TRANSACTION").Scan(&transaction); err != nil {
			return err
		}
		err := body(transaction)
		if err == nil {
			err = session.Query("COMMIT TRANSACTION " + transaction.String()).Exec()
		}
		if err == nil {
			return nil
		}
		// Without effect after a commit; if it cannot be sent, the transaction expires.
		_ = session.Query("ROLLBACK TRANSACTION " + transaction.String()).Exec()
		if !endedWithoutEffect(err) || attempt+1 == attempts {
			return err
		}
		// Two transactions that conflict wait for different times.
		time.Sleep(time.Duration(rand.Int63n(int64(5*time.Millisecond) << min(attempt, 6))))
	}
}

func main() {
	port, err := strconv.Atoi(os.Args[1])
	check(err)
	cluster := gocql.NewCluster("127.0.0.1")
	cluster.Port = port
	cluster.Timeout = 20 * time.Second
	session, err := cluster.CreateSession()
	check(err)
	defer session.Close()
	for _, statement := range []string{
		"CREATE KEYSPACE go_tx WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}",
		"CREATE TABLE go_tx.t (k int PRIMARY KEY, v int)",
		"INSERT INTO go_tx.t (k, v) VALUES (1, 0)",
	} {
		check(session.Query(statement).Exec())
	}
	var group sync.WaitGroup
	for thread := 0; thread < 4; thread++ {
		group.Add(1)
		go func() {
			defer group.Done()
			for n := 0; n < 10; n++ {
				check(runTransaction(session, 50, func(transaction gocql.UUID) error {
					var v int
					read := session.Query("SELECT v FROM go_tx.t WHERE k = 1 USING TRANSACTION ?", transaction)
					if err := read.Scan(&v); err != nil {
						return err
					}
					write := "UPDATE go_tx.t USING TRANSACTION ? SET v = ? WHERE k = 1"
					return session.Query(write, transaction, v+1).Exec()
				}))
			}
		}()
	}
	group.Wait()
	var sum int
	check(session.Query("SELECT v FROM go_tx.t WHERE k = 1").Scan(&sum))
	if sum != 40 {
		check(fmt.Errorf("the sum is %d", sum))
	}
}

func check(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
