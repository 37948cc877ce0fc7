// Command porcupine has Porcupine judge histories of registers: a second opinion on carnet-checker.
//
// Standard input holds histories as carnet-checker writes them in JSON: an event a line, an empty
// line after each history. Standard output gets a line for each: "linearizable", "not
// linearizable", or "undecided" where it took too long.
//
// A transaction is one operation on all registers. So a history is linearizable exactly if it is
// strictly serializable.
package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"log"
	"maps"
	"math"
	"os"
	"time"

	"github.com/anishathalye/porcupine"
)

const (
	patience  = 20 * time.Second
	lineBytes = 1 << 20
)

type event struct {
	Index   int64  `json:"index"`
	Type    string `json:"type"`
	Process int64  `json:"process"`
	Value   []op   `json:"value"`
}

// An op reads or writes a register; nil is the value of one that nobody has written.
type op struct {
	isRead bool
	key    int64
	value  *int64
}

func (o *op) UnmarshalJSON(text []byte) error {
	var function string
	parts := []any{&function, &o.key, &o.value}
	if err := json.Unmarshal(text, &parts); err != nil {
		return err
	}
	if len(parts) != 3 || function != "r" && function != "w" {
		return fmt.Errorf("%s is no operation on a register", text)
	}
	o.isRead = function == "r"
	return nil
}

type transaction struct {
	ops []op
	// Whether it committed, and its reads say what they returned.
	isKnown bool
}

// The registers' values; those that nobody has written are missing.
type registers map[int64]int64

func step(state, input, _ any) (bool, any) {
	after, asked := maps.Clone(state.(registers)), input.(transaction)
	for _, o := range asked.ops {
		if !o.isRead {
			after[o.key] = *o.value
			continue
		}
		value, isThere := after[o.key]
		if asked.isKnown && (isThere != (o.value != nil) || isThere && value != *o.value) {
			return false, state
		}
	}
	return true, after
}

var model = porcupine.Model{
	Partition: partition,
	Init:      func() any { return registers{} },
	Step:      step,
	Equal: func(one, other any) bool {
		return maps.Equal(one.(registers), other.(registers))
	},
}

// Splits a history by registers, where no transaction is about two of them.
func partition(history []porcupine.Operation) [][]porcupine.Operation {
	parts := map[int64][]porcupine.Operation{}
	for _, operation := range history {
		ops := operation.Input.(transaction).ops
		for _, o := range ops {
			if o.key != ops[0].key {
				return [][]porcupine.Operation{history}
			}
		}
		parts[ops[0].key] = append(parts[ops[0].key], operation)
	}
	var all [][]porcupine.Operation
	for _, part := range parts {
		all = append(all, part)
	}
	return all
}

// Makes operations of events. What nobody was told the end of may happen at any later time; what
// was refused did not.
func operations(events []event) []porcupine.Operation {
	var all []porcupine.Operation
	running := map[int64]event{}
	end := func(process, at int64, ops []op, isKnown bool) {
		invoked := running[process]
		delete(running, process)
		all = append(all, porcupine.Operation{
			Input: transaction{ops, isKnown}, Call: invoked.Index, Return: at,
		})
	}
	for _, e := range events {
		switch e.Type {
		case "invoke":
			running[e.Process] = e
		case "ok":
			end(e.Process, e.Index, e.Value, true)
		case "fail":
			delete(running, e.Process)
		case "info":
			end(e.Process, math.MaxInt64, running[e.Process].Value, false)
		default:
			log.Fatalf("there is no event %q", e.Type)
		}
	}
	for process, e := range running {
		end(process, math.MaxInt64, e.Value, false)
	}
	return all
}

func judge(events []event) string {
	switch porcupine.CheckOperationsTimeout(model, operations(events), patience) {
	case porcupine.Ok:
		return "linearizable"
	case porcupine.Illegal:
		return "not linearizable"
	default:
		return "undecided"
	}
}

func main() {
	log.SetFlags(0)
	var events []event
	lines := bufio.NewScanner(os.Stdin)
	lines.Buffer(nil, lineBytes)
	for lines.Scan() {
		if len(lines.Bytes()) == 0 {
			fmt.Println(judge(events))
			events = nil
			continue
		}
		var e event
		if err := json.Unmarshal(lines.Bytes(), &e); err != nil {
			log.Fatal(err)
		}
		events = append(events, e)
	}
	if err := lines.Err(); err != nil {
		log.Fatal(err)
	}
}
