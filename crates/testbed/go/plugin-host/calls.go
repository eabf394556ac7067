package main

import (
	"sync"
	"time"

	"github.com/sirupsen/logrus"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	velerov1 "github.com/vmware-tanzu/velero/pkg/apis/velero/v1"
	"github.com/vmware-tanzu/velero/pkg/plugin/clientmgmt"
	"github.com/vmware-tanzu/velero/pkg/plugin/velero"
)

// caller makes the calls and keeps what each of them came to.
type caller struct {
	manager clientmgmt.Manager
	logger  logrus.FieldLogger
	lock    sync.Mutex
	answers map[string]any
}

// keep keeps the answer of a call, or its error as Velero would show it. The error is logged as well: where a plugin says the place of
// an error, it is in the line.
func (c *caller) keep(call string, err error, answer ...any) {
	c.lock.Lock()
	defer c.lock.Unlock()
	switch {
	case err != nil:
		c.answers[call] = map[string]string{"error": err.Error()}
		c.logger.WithError(err).WithField("call", call).Error("a call failed")
	case len(answer) == 1:
		c.answers[call] = answer[0]
	default:
		c.answers[call] = answer
	}
}

func (c *caller) all() error {
	parts := []func() error{c.backupItems, c.restoreItems, c.deleteItems, c.itemBlocks, c.volumes, c.files}
	for _, part := range parts {
		if err := part(); err != nil {
			return err
		}
	}
	return nil
}

// item is an object of a namespace.
func item(name string) *unstructured.Unstructured {
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "v1",
		"kind":       "ConfigMap",
		"metadata":   map[string]any{"name": name, "namespace": "shop", "uid": "u1"},
		"spec":       map[string]any{"large": int64(9223372036854775807), "half": 0.5, "one": int64(1)},
	}}
}

func backup() *velerov1.Backup {
	now := metav1.NewTime(time.Date(2026, 11, 22, 12, 0, 0, 0, time.UTC))
	yes := true
	return &velerov1.Backup{
		ObjectMeta: metav1.ObjectMeta{Name: "b1", Namespace: "velero", UID: "u2", Labels: map[string]string{"a": "b"}},
		Spec: velerov1.BackupSpec{
			IncludedNamespaces: []string{"shop"},
			TTL:                metav1.Duration{Duration: 720 * time.Hour},
			CSISnapshotTimeout: metav1.Duration{Duration: 10 * time.Minute},
			SnapshotVolumes:    &yes,
			LabelSelector:      &metav1.LabelSelector{MatchLabels: map[string]string{"app": "web"}},
			OrLabelSelectors:   []*metav1.LabelSelector{{MatchLabels: map[string]string{"app": "web"}}},
			OrderedResources:   map[string]string{"pods": "shop/a,shop/b"},
			Hooks: velerov1.BackupHooks{Resources: []velerov1.BackupResourceHookSpec{{
				Name: "h1",
				PreHooks: []velerov1.BackupResourceHook{{Exec: &velerov1.ExecHook{
					Command: []string{"true"},
					Timeout: metav1.Duration{Duration: 30 * time.Second},
				}}},
			}}},
			UploaderConfig: &velerov1.UploaderConfigForBackup{ParallelFilesUpload: 2},
		},
		Status: velerov1.BackupStatus{
			Phase:          velerov1.BackupPhaseInProgress,
			StartTimestamp: &now,
			Expiration:     &now,
			Progress:       &velerov1.BackupProgress{TotalItems: 2, ItemsBackedUp: 1},
			HookStatus:     &velerov1.HookStatus{HooksAttempted: 1},
		},
	}
}

func restore() *velerov1.Restore {
	now := metav1.NewTime(time.Date(2026, 11, 22, 12, 0, 0, 0, time.UTC))
	yes := true
	return &velerov1.Restore{
		ObjectMeta: metav1.ObjectMeta{Name: "r1", Namespace: "velero"},
		Spec: velerov1.RestoreSpec{
			BackupName:       "b1",
			RestorePVs:       &yes,
			NamespaceMapping: map[string]string{"shop": "shop-2"},
			RestoreStatus:    &velerov1.RestoreStatusSpec{IncludedResources: []string{"pods"}},
			UploaderConfig:   &velerov1.UploaderConfigForRestore{WriteSparseFiles: &yes},
		},
		Status: velerov1.RestoreStatus{Phase: velerov1.RestorePhaseInProgress, StartTimestamp: &now},
	}
}

// progress is how far an operation is, with times as Velero takes them.
func progress(p velero.OperationProgress) map[string]any {
	stamp := func(t time.Time) string {
		if t.IsZero() {
			return "unknown"
		}
		return t.UTC().Format(time.RFC3339Nano)
	}
	return map[string]any{
		"completed": p.Completed, "err": p.Err, "n": []int64{p.NCompleted, p.NTotal}, "units": p.OperationUnits,
		"description": p.Description, "started": stamp(p.Started), "updated": stamp(p.Updated),
	}
}

// names shows the names of objects as Velero writes them.
func names(items []velero.ResourceIdentifier) []string {
	all := []string{}
	for _, i := range items {
		all = append(all, i.GroupResource.String()+" "+i.Namespace+"/"+i.Name)
	}
	return all
}

func content(item runtime.Unstructured) any {
	if item == nil {
		return nil
	}
	return item.UnstructuredContent()
}
