// A host of plugins made of Velero's own client code. It starts the plugins of a folder as a Velero server does, makes every call to
// those of the example with all kinds, and prints as JSON what it saw.
//
//	LIFEBOAT_PLUGIN_DIR=FOLDER plugin-host server FLAGS...
//
// The flags go on to the plugins: all of them, as of Velero 1.15.
package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"sync"
	"time"

	"github.com/sirupsen/logrus"

	"github.com/vmware-tanzu/velero/pkg/plugin/clientmgmt"
	"github.com/vmware-tanzu/velero/pkg/plugin/clientmgmt/process"
	"github.com/vmware-tanzu/velero/pkg/plugin/framework"
	"github.com/vmware-tanzu/velero/pkg/plugin/framework/common"
	"github.com/vmware-tanzu/velero/pkg/util/logging"
)

// seen is what is printed.
type seen struct {
	// Listed has the plugins of the folder, by kind.
	Listed map[string][]framework.PluginIdentifier `json:"listed"`
	// Calls has what each call came to.
	Calls map[string]any `json:"calls"`
	// Log has the lines that a Velero server would have written.
	Log []json.RawMessage `json:"log"`
	// StopMillis is how long it took until all processes were gone.
	StopMillis int64 `json:"stop_millis"`
}

// lines is where the log goes.
type lines struct {
	lock   sync.Mutex
	buffer bytes.Buffer
}

func (l *lines) Write(line []byte) (int, error) {
	l.lock.Lock()
	defer l.lock.Unlock()
	return l.buffer.Write(line)
}

func (l *lines) all() []json.RawMessage {
	l.lock.Lock()
	defer l.lock.Unlock()
	var all []json.RawMessage
	for _, line := range bytes.Split(l.buffer.Bytes(), []byte("\n")) {
		if len(line) > 0 {
			all = append(all, append(json.RawMessage(nil), line...))
		}
	}
	return all
}

func main() {
	// A Velero server finds its built-in plugins by starting itself. Here there are none.
	if len(os.Args) > 1 && os.Args[1] == "run-plugins" {
		framework.NewServer().Serve()
		return
	}
	if len(os.Args) < 2 || os.Args[1] != "server" {
		fmt.Fprintln(os.Stderr, "usage: LIFEBOAT_PLUGIN_DIR=FOLDER plugin-host server FLAGS...")
		os.Exit(2)
	}
	seen, err := run(os.Getenv("LIFEBOAT_PLUGIN_DIR"), os.Getenv("LIFEBOAT_CALLS"))
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
	}
	if err := json.NewEncoder(os.Stdout).Encode(seen); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	if err != nil {
		os.Exit(1)
	}
}

func run(folder, calls string) (*seen, error) {
	log := &lines{}
	logger := logrus.New()
	logger.Out, logger.Level, logger.Formatter = log, logrus.DebugLevel, &logrus.JSONFormatter{}
	for _, hook := range logging.DefaultHooks(false) {
		logger.Hooks.Add(hook)
	}
	seen := &seen{Listed: map[string][]framework.PluginIdentifier{}, Calls: map[string]any{}}
	defer func() { seen.Log = log.all() }()
	registry := process.NewRegistry(folder, logger, logger.Level)
	if err := registry.DiscoverPlugins(); err != nil {
		return seen, err
	}
	for kind := range common.AllPluginKinds() {
		if plugins := registry.List(common.PluginKind(kind)); len(plugins) > 0 {
			seen.Listed[kind] = plugins
		}
	}
	if calls == "none" {
		return seen, nil
	}
	manager := clientmgmt.NewManager(logger, logger.Level, registry)
	caller := &caller{manager: manager, logger: logger, answers: seen.Calls}
	err := caller.all()
	began := time.Now()
	manager.CleanupClients()
	seen.StopMillis = time.Since(began).Milliseconds()
	return seen, err
}
