package main

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/pkg/errors"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
)

// act does what the annotation `fixture` of an object says, and gives the object to answer:
//
//	change=VALUE     gives it a label
//	no-kind          answers what is no object
//	grow=BYTES       answers a large one
//	fail=TEXT        fails
//	fail-at=TEXT     fails, and says where
//	unavailable=TEXT fails with what may pass
//	panic=TEXT       panics in the call
//	crash=TEXT       panics beside it, which ends the process
//	exit-after=CODE  ends the process a moment after it has answered
//	hang             does not answer
//	stop             does not answer, nor anything else
//	sleep=MILLIS     takes its time
//	log=TEXT         logs
//	log-all          logs in all ways
//	flood=BYTES      prints so much on each stream
func (p plugin) act(item runtime.Unstructured) (runtime.Unstructured, error) {
	object := &unstructured.Unstructured{Object: item.UnstructuredContent()}
	order, argument, _ := strings.Cut(object.GetAnnotations()["fixture"], "=")
	switch order {
	case "change":
		object.SetLabels(map[string]string{"changed": argument})
	case "no-kind":
		return &unstructured.Unstructured{Object: map[string]any{}}, nil
	case "grow":
		object.Object["data"] = strings.Repeat("x", number(argument))
	case "fail":
		return nil, plain(argument)
	case "fail-at":
		return nil, errors.New(argument)
	case "unavailable":
		return nil, status.Error(codes.Unavailable, argument)
	case "panic":
		panic(argument)
	case "crash":
		go func() { panic(argument) }()
		forever()
	case "exit-after":
		exitSoon(number(argument))
	case "hang":
		forever()
	case "stop":
		if err := syscall.Kill(os.Getpid(), syscall.SIGSTOP); err != nil {
			panic(err)
		}
		forever()
	case "sleep":
		time.Sleep(time.Duration(number(argument)) * time.Millisecond)
	case "log":
		p.log.Info(argument)
	case "log-all":
		p.logAll()
	case "flood":
		flood(number(argument))
	default:
		return nil, nil
	}
	return object, nil
}

// plain is an error that does not know where it came about.
type plain string

func (e plain) Error() string { return string(e) }

func number(text string) int {
	n, err := strconv.Atoi(text)
	if err != nil {
		panic(err)
	}
	return n
}

func exitSoon(code int) {
	go func() {
		time.Sleep(20 * time.Millisecond)
		os.Exit(code)
	}()
}

// logAll logs as the library does, and as programs do that know nothing of it.
func (p plugin) logAll() {
	p.log.Debug("at debug")
	p.log.Info("at info")
	p.log.Warn("at warn")
	p.log.WithField("volume", "v1").WithError(plain("no luck")).Error("at error")
	fmt.Fprint(stderr, "[WARN] a text\nplain text\n{\"@level\":\"error\",\"@message\":{\"odd\":1}}\n")
	fmt.Fprint(stderr, "{\"@level\":\"info\",\"@message\":\"no \xff text\"}\n")
	fmt.Fprintf(stderr, "[ERROR] %s\n", strings.Repeat("x", 100<<10))
	p.log.Info("after all")
}

// flood prints on the streams of the process, and on those that the library has put in their places.
func flood(size int) {
	line := append(bytes.Repeat([]byte("x"), 999), '\n')
	for _, stream := range []io.Writer{os.Stdout, os.Stderr, stdout, stderr} {
		for range size / len(line) {
			if _, err := stream.Write(line); err != nil {
				panic(err)
			}
		}
	}
}
