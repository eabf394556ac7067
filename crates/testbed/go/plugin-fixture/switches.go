package main

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"time"
)

// The words of FIXTURE_SWITCHES:
//
//	prints-first              prints a line before the handshake, as a program does that greets its users
//	silent                    prints nothing, and goes on
//	exits                     says why on its standard error, and ends before the handshake
//	fails-after-first-start=F does so from its second start on; the file F tells it that it has started before
//	applies-badly             actions answer what they apply to with an error
//	applies-never             they do not answer it
//	refuses-again             a second configuration is refused
//	ends-slowly               takes 1.5 s to end when it is asked to
//	ends-badly                ends with the exit code 7 then
//	never-ends                does not end then
func has(word string) bool {
	return slices.Contains(strings.Fields(os.Getenv("FIXTURE_SWITCHES")), word)
}

// startBadly is what goes wrong before a plugin listens.
func startBadly() {
	for _, word := range strings.Fields(os.Getenv("FIXTURE_SWITCHES")) {
		marker, isMarked := strings.CutPrefix(word, "fails-after-first-start=")
		switch {
		case word == "prints-first":
			fmt.Fprintln(stdout, "Hello, world!")
		case word == "silent":
			forever()
		case word == "exits":
			fmt.Fprintln(stderr, "its licence has expired")
			os.Exit(3)
		case isMarked:
			if _, err := os.Stat(marker); err == nil {
				fmt.Fprintln(stderr, "it does not start again")
				os.Exit(1)
			}
			if err := os.WriteFile(marker, nil, 0o644); err != nil {
				panic(err)
			}
		}
	}
}

// endBadly is what goes wrong when a plugin was asked to end.
func endBadly() {
	switch {
	case has("ends-slowly"):
		time.Sleep(1500 * time.Millisecond)
	case has("ends-badly"):
		os.Exit(7)
	case has("never-ends"):
		forever()
	}
}

func forever() {
	for {
		time.Sleep(time.Hour)
	}
}
