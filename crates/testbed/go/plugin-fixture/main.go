// A plugin for tests of a host of plugins, made with Velero's library and of all its kinds.
//
// It misbehaves as it is told: as a process by the words of FIXTURE_SWITCHES (switches.go), in a call by the annotation `fixture` of the
// object that comes with it (orders.go), in its store by the end of a key (objects.go). What it is asked goes into a file, its diary.
//
//	FIXTURE_PLUGINS   what it has, as Kind=name, separated by spaces
//	FIXTURE_SWITCHES  how its process misbehaves
//	FIXTURE_DIARY     the file of its diary
package main

import (
	"fmt"
	"os"
	"strings"

	"github.com/sirupsen/logrus"
	"github.com/spf13/pflag"

	"github.com/vmware-tanzu/velero/pkg/plugin/framework"
	"github.com/vmware-tanzu/velero/pkg/plugin/framework/common"
)

// The streams that the process was started with. From its start on the library puts others in their places.
var stdout, stderr = os.Stdout, os.Stderr

func main() {
	note("start %d", os.Getpid())
	startBadly()
	server := framework.NewServer().BindFlags(pflag.CommandLine)
	for _, word := range strings.Fields(os.Getenv("FIXTURE_PLUGINS")) {
		kind, name, _ := strings.Cut(word, "=")
		register(server, kind, name)
	}
	server.Serve()
	endBadly()
}

// plugin is what all kinds have in common.
type plugin struct {
	log  logrus.FieldLogger
	kind string
	name string
}

// Name has to be there, and is never asked for.
func (p plugin) Name() string { return p.name }

func register(server framework.Server, kind, name string) {
	as := func(make func(plugin) any) common.HandlerInitializer {
		return func(log logrus.FieldLogger) (any, error) { return make(plugin{log, kind, name}), nil }
	}
	switch kind {
	case "BackupItemAction":
		server.RegisterBackupItemAction(name, as(func(p plugin) any { return &backupItem{p} }))
	case "BackupItemActionV2":
		server.RegisterBackupItemActionV2(name, as(func(p plugin) any { return &backupItemV2{p} }))
	case "RestoreItemAction":
		server.RegisterRestoreItemAction(name, as(func(p plugin) any { return &restoreItem{p} }))
	case "RestoreItemActionV2":
		server.RegisterRestoreItemActionV2(name, as(func(p plugin) any { return &restoreItemV2{restoreItem{p}} }))
	case "DeleteItemAction":
		server.RegisterDeleteItemAction(name, as(func(p plugin) any { return &deleteItem{p} }))
	case "ItemBlockAction":
		server.RegisterItemBlockAction(name, as(func(p plugin) any { return &itemBlock{p} }))
	case "ObjectStore":
		server.RegisterObjectStore(name, as(func(p plugin) any { return &objects{plugin: p} }))
	case "VolumeSnapshotter":
		server.RegisterVolumeSnapshotter(name, as(func(p plugin) any { return &volumes{plugin: p} }))
	default:
		fmt.Fprintf(stderr, "there is no kind %q\n", kind)
		os.Exit(1)
	}
}

// note writes a line into the diary.
func note(format string, values ...any) {
	path := os.Getenv("FIXTURE_DIARY")
	if path == "" {
		return
	}
	diary, err := os.OpenFile(path, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o644)
	if err != nil {
		panic(err)
	}
	defer diary.Close()
	if _, err := diary.WriteString(fmt.Sprintf(format, values...) + "\n"); err != nil {
		panic(err)
	}
}
