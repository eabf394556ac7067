package main

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

type volume struct {
	ID, Name string
	// The claim as namespace/name.
	Claim string
	Size  int64
	Block bool
	// What it is a copy of.
	Source string `json:",omitempty"`
	// No pod has used it yet, and it is no copy.
	Fresh bool `json:",omitempty"`
	// The loop device of a block volume in use.
	Device  string          `json:",omitempty"`
	Targets map[string]bool `json:",omitempty"`
}

type snapshot struct {
	ID, Name, Volume, Group string
	// The claim that the volume was made for, as namespace/name.
	Claim          string
	Size           int64
	Block          bool
	Created, Ready time.Time
	// What the class wanted to go wrong.
	Fail string `json:",omitempty"`
}

type group struct {
	ID, Name           string
	Volumes, Snapshots []string
	// The claims that the volumes were made for, as namespace/name.
	Claims  []string
	Created time.Time
	// What the class wanted to go wrong.
	Fail string `json:",omitempty"`
}

// store is all that the driver keeps. Its lock is held for looks and notes, never while bytes are copied.
type store struct {
	sync.Mutex `json:"-"`
	folder     string
	// Names that a call works on.
	busy map[string]bool
	// How often a call came for a name.
	calls     map[string]int
	Volumes   map[string]*volume
	Snapshots map[string]*snapshot
	Groups    map[string]*group
}

func newStore(folder string) (*store, error) {
	s := &store{
		folder: folder, busy: map[string]bool{}, calls: map[string]int{},
		Volumes: map[string]*volume{}, Snapshots: map[string]*snapshot{}, Groups: map[string]*group{},
	}
	if err := os.MkdirAll(folder, 0o755); err != nil {
		return nil, err
	}
	bytes, err := os.ReadFile(filepath.Join(folder, "state.json"))
	if os.IsNotExist(err) {
		return s, nil
	}
	if err != nil {
		return nil, err
	}
	return s, json.Unmarshal(bytes, s)
}

// save writes what exists; the caller holds the lock.
func (s *store) save() error {
	bytes, err := json.MarshalIndent(s, "", " ")
	if err != nil {
		return internal(err)
	}
	path := filepath.Join(s.folder, "state.json")
	if err := os.WriteFile(path+".new", bytes, 0o600); err != nil {
		return internal(err)
	}
	return internal(os.Rename(path+".new", path))
}

// begin refuses a second call for what a first one still works on.
func (s *store) begin(name string) (end func(), err error) {
	s.Lock()
	defer s.Unlock()
	if s.busy[name] {
		return nil, status.Errorf(codes.Aborted, "another call works on %s", name)
	}
	s.busy[name] = true
	s.calls[name]++
	return func() {
		s.Lock()
		defer s.Unlock()
		delete(s.busy, name)
	}, nil
}

func (s *store) image(id string) string { return filepath.Join(s.folder, id+".img") }

// mount is where the file system of a volume in use is, before it is bound to the places where pods want it.
func (s *store) mount(id string) string { return filepath.Join(s.folder, "mounts", id) }

func id(kind, name string) string {
	sum := sha256.Sum256([]byte(kind + "/" + name))
	return kind + "-" + hex.EncodeToString(sum[:12])
}

func internal(err error) error {
	if err == nil {
		return nil
	}
	return status.Error(codes.Internal, err.Error())
}

func run(name string, args ...string) error {
	out, err := exec.Command(name, args...).CombinedOutput()
	if err != nil {
		return status.Errorf(codes.Internal, "%s %s: %v: %s", name, strings.Join(args, " "), err, strings.TrimSpace(string(out)))
	}
	return nil
}

// copyImage makes a whole copy or none.
func copyImage(from, to string) error {
	if err := run("cp", "--sparse=always", "--reflink=auto", from, to+".new"); err != nil {
		os.Remove(to + ".new")
		return err
	}
	return internal(os.Rename(to+".new", to))
}

func mounted(path string) bool { return exec.Command("mountpoint", "-q", path).Run() == nil }

// freeze holds all writers of a volume, and gives what lets them go on. A file system that a pod has frozen stays so.
func (s *store) freeze(v *volume) (thaw func(), err error) {
	nothing := func() {}
	if v.Block {
		if v.Device != "" {
			return nothing, run("blockdev", "--flushbufs", v.Device)
		}
		return nothing, nil
	}
	path := s.mount(v.ID)
	if !mounted(path) {
		return nothing, nil
	}
	if err := run("fsfreeze", "--freeze", path); err != nil {
		if strings.Contains(err.Error(), "busy") {
			return nothing, nil
		}
		return nothing, err
	}
	return func() { run("fsfreeze", "--unfreeze", path) }, nil
}
