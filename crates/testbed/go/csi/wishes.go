package main

import (
	"context"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// wanted is what the parameters of a snapshot class ask the driver to do wrong:
//
//	readyAfter: 5s         snapshots are ready so long after they were made
//	pause: 300ms           the driver waits so long before each snapshot or group
//	fail: create-snapshot  that call fails: create-snapshot, create-group, delete-snapshot or delete-group
//	failOnce: "true"       the first call for each snapshot or group fails
//	hang: "true"           calls that make one end only when the caller gives up
//	failMember: data-2     a group with a volume of the claim of this name fails
type wanted struct {
	readyAfter, pause time.Duration
	fail, failMember  string
	failOnce, hang    bool
}

func wishes(parameters map[string]string) (wanted, error) {
	want := wanted{
		fail: parameters["fail"], failMember: parameters["failMember"],
		failOnce: parameters["failOnce"] == "true", hang: parameters["hang"] == "true",
	}
	for name, to := range map[string]*time.Duration{"readyAfter": &want.readyAfter, "pause": &want.pause} {
		if text := parameters[name]; text != "" {
			duration, err := time.ParseDuration(text)
			if err != nil {
				return want, status.Errorf(codes.InvalidArgument, "%s: %v", name, err)
			}
			*to = duration
		}
	}
	return want, nil
}

// before does what is wanted before a call that makes something; call is its number for this name, from 1.
func (w wanted) before(ctx context.Context, what string, call int) error {
	if w.hang {
		<-ctx.Done()
		return status.Error(codes.DeadlineExceeded, "the class wants that the call hangs")
	}
	if w.fail == what || w.failOnce && call == 1 {
		return status.Errorf(codes.Internal, "the class wants that %s fails", what)
	}
	time.Sleep(w.pause)
	return nil
}
