package main

import (
	"encoding/json"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	api "github.com/vmware-tanzu/velero/pkg/apis/velero/v1"
	"github.com/vmware-tanzu/velero/pkg/plugin/velero"
)

// AppliesTo is what all actions apply to.
func (p plugin) AppliesTo() (velero.ResourceSelector, error) {
	note("AppliesTo %s %s", p.kind, p.name)
	switch {
	case has("applies-badly"):
		return velero.ResourceSelector{}, plain("it cannot say")
	case has("applies-never"):
		forever()
	case strings.HasSuffix(p.name, "/everything"):
		return velero.ResourceSelector{}, nil
	}
	return velero.ResourceSelector{
		IncludedResources:  []string{"pods"},
		ExcludedResources:  []string{"secrets"},
		IncludedNamespaces: []string{"shop"},
		ExcludedNamespaces: []string{"kube-*"},
		LabelSelector:      "asked-by=" + strings.ReplaceAll(p.name, "/", "-"),
	}, nil
}

func other(name string) velero.ResourceIdentifier {
	deployments := schema.GroupResource{Group: "apps", Resource: "deployments"}
	return velero.ResourceIdentifier{GroupResource: deployments, Namespace: "shop", Name: name}
}

// progress is how far an operation is. One that is called `unset` has told no times.
func progress(operation string) velero.OperationProgress {
	far := velero.OperationProgress{NCompleted: 3, NTotal: 7, OperationUnits: "Bytes", Description: operation}
	switch operation {
	case "unset":
	case "done":
		far.Completed = true
	case "failed":
		far.Completed, far.Err = true, "the disk is full"
	default:
		far.Updated = time.Unix(1_782_000_000, 0)
	}
	return far
}

type backupItem struct{ plugin }

func (a *backupItem) Execute(item runtime.Unstructured, _ *api.Backup) (
	runtime.Unstructured, []velero.ResourceIdentifier, error,
) {
	note("Execute %s %s", a.kind, a.name)
	answer, err := a.act(item)
	return answer, []velero.ResourceIdentifier{other("web")}, err
}

type backupItemV2 struct{ plugin }

func (a *backupItemV2) Execute(item runtime.Unstructured, backup *api.Backup) (
	runtime.Unstructured, []velero.ResourceIdentifier, string, []velero.ResourceIdentifier, error,
) {
	note("Execute %s %s", a.kind, a.name)
	answer, err := a.act(item)
	web, later := []velero.ResourceIdentifier{other("web")}, []velero.ResourceIdentifier{other("later")}
	return answer, web, "operation of " + backup.Name, later, err
}

func (a *backupItemV2) Progress(operation string, _ *api.Backup) (velero.OperationProgress, error) {
	return progress(operation), nil
}

func (a *backupItemV2) Cancel(operation string, backup *api.Backup) error {
	note("Cancel %s %s %s of %s", a.kind, a.name, operation, backup.Name)
	return nil
}

type restoreItem struct{ plugin }

func (a *restoreItem) Execute(in *velero.RestoreItemActionExecuteInput) (*velero.RestoreItemActionExecuteOutput, error) {
	pristine, err := json.Marshal(in.ItemFromBackup.UnstructuredContent()["metadata"])
	if err != nil {
		return nil, err
	}
	note("Execute %s %s, in the backup %s", a.kind, a.name, pristine)
	answer, err := a.act(in.Item)
	if err != nil {
		return nil, err
	}
	out := &velero.RestoreItemActionExecuteOutput{UpdatedItem: answer}
	if answer == nil {
		out.UpdatedItem = in.Item
	}
	out.AdditionalItems = []velero.ResourceIdentifier{other("web")}
	out.SkipRestore = strings.HasPrefix(annotation(in.Item), "skip")
	return out, nil
}

func annotation(item runtime.Unstructured) string {
	metadata, _ := item.UnstructuredContent()["metadata"].(map[string]any)
	annotations, _ := metadata["annotations"].(map[string]any)
	order, _ := annotations["fixture"].(string)
	return order
}

type restoreItemV2 struct{ restoreItem }

func (a *restoreItemV2) Execute(in *velero.RestoreItemActionExecuteInput) (*velero.RestoreItemActionExecuteOutput, error) {
	out, err := a.restoreItem.Execute(in)
	if err != nil {
		return nil, err
	}
	out.OperationID = "operation of " + in.Restore.Name
	out.WaitForAdditionalItems = true
	out.AdditionalItemsReadyTimeout = 90*time.Second + 5
	return out, nil
}

func (a *restoreItemV2) Progress(operation string, _ *api.Restore) (velero.OperationProgress, error) {
	return progress(operation), nil
}

func (a *restoreItemV2) Cancel(operation string, restore *api.Restore) error {
	note("Cancel %s %s %s of %s", a.kind, a.name, operation, restore.Name)
	return nil
}

func (a *restoreItemV2) AreAdditionalItemsReady(items []velero.ResourceIdentifier, _ *api.Restore) (bool, error) {
	return len(items) == 1 && items[0] == other("ready"), nil
}

type deleteItem struct{ plugin }

func (a *deleteItem) Execute(in *velero.DeleteItemActionExecuteInput) error {
	note("Execute %s %s for %s", a.kind, a.name, in.Backup.Name)
	_, err := a.act(in.Item)
	return err
}

type itemBlock struct{ plugin }

func (a *itemBlock) GetRelatedItems(item runtime.Unstructured, backup *api.Backup) ([]velero.ResourceIdentifier, error) {
	note("GetRelatedItems %s %s for %s", a.kind, a.name, backup.Name)
	_, err := a.act(item)
	return []velero.ResourceIdentifier{other("web")}, err
}
