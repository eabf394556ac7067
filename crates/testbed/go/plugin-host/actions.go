package main

import (
	"fmt"
	"strings"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/vmware-tanzu/velero/pkg/plugin/velero"
)

func (c *caller) backupItems() error {
	actions, err := c.manager.GetBackupItemActionsV2()
	if err != nil {
		return err
	}
	order := []string{}
	for _, action := range actions {
		order = append(order, action.Name())
		selector, err := action.AppliesTo()
		c.keep("bia applies "+action.Name(), err, selector)
	}
	c.keep("bia order", nil, order)
	save, err := c.manager.GetBackupItemActionV2("example.io/Save_1")
	if err != nil {
		return err
	}
	for _, name := range []string{"changed", "plain"} {
		updated, additional, operation, post, err := save.Execute(item(name), backup())
		c.keep("bia "+name, err, content(updated), names(additional), operation, names(post))
	}
	for _, operation := range []string{"new", "runs", "failed", "odd"} {
		p, err := save.Progress(operation, backup())
		c.keep("bia progress "+operation, err, progress(p))
	}
	c.keep("bia cancel", save.Cancel("runs", backup()))
	return c.odd()
}

// odd calls what fails, panics, prints, logs and takes its time.
func (c *caller) odd() error {
	odd, err := c.manager.GetBackupItemActionV2("example.io/odd")
	if err != nil {
		return err
	}
	_, err = odd.AppliesTo()
	c.keep("odd applies", err)
	for _, name := range []string{"fail", "passing", "panic", "no-object", "long-error", "loud", "log"} {
		updated, _, _, _, err := odd.Execute(item(name), backup())
		c.keep("odd "+name, err, content(updated))
	}
	large := item("large")
	large.Object["data"] = map[string]any{"text": strings.Repeat("ä<&\"", 2<<20)}
	updated, _, _, _, err := odd.Execute(large, backup())
	same := err == nil && fmt.Sprint(content(updated)) == fmt.Sprint(large.Object)
	c.keep("odd large", err, same)
	began := time.Now()
	var calls sync.WaitGroup
	for n := range 32 {
		calls.Add(1)
		go func() {
			defer calls.Done()
			name := "slow"
			if n%2 == 1 {
				name = "plain"
			}
			_, _, _, _, err := odd.Execute(item(name), backup())
			c.keep(fmt.Sprintf("odd at once %d", n), err)
		}()
	}
	calls.Wait()
	c.keep("odd at once millis", nil, time.Since(began).Milliseconds())
	return nil
}

func (c *caller) restoreItems() error {
	actions, err := c.manager.GetRestoreItemActionsV2()
	if err != nil {
		return err
	}
	for _, action := range actions {
		selector, err := action.AppliesTo()
		c.keep("ria applies "+action.Name(), err, selector)
		for _, name := range []string{"changed", "plain", "skip", "wait"} {
			output, err := action.Execute(&velero.RestoreItemActionExecuteInput{
				Item: item(name), ItemFromBackup: item(name), Restore: restore(),
			})
			if err != nil {
				c.keep("ria "+name, err)
				continue
			}
			c.keep("ria "+name, nil, map[string]any{
				"item": content(output.UpdatedItem), "additional": names(output.AdditionalItems), "skip": output.SkipRestore,
				"operation": output.OperationID, "wait": output.WaitForAdditionalItems,
				"timeout": output.AdditionalItemsReadyTimeout.String(),
			})
		}
		for _, operation := range []string{"runs", "odd"} {
			p, err := action.Progress(operation, restore())
			c.keep("ria progress "+operation, err, progress(p))
		}
		c.keep("ria cancel", action.Cancel("runs", restore()))
		secret := velero.ResourceIdentifier{
			GroupResource: schema.GroupResource{Resource: "secrets"}, Namespace: "shop", Name: "first",
		}
		node := velero.ResourceIdentifier{GroupResource: schema.GroupResource{Resource: "nodes"}, Name: "n1"}
		ready, err := action.AreAdditionalItemsReady([]velero.ResourceIdentifier{secret}, restore())
		c.keep("ria ready", err, ready)
		ready, err = action.AreAdditionalItemsReady([]velero.ResourceIdentifier{secret, node}, restore())
		c.keep("ria not ready", err, ready)
	}
	return nil
}

func (c *caller) deleteItems() error {
	actions, err := c.manager.GetDeleteItemActions()
	if err != nil {
		return err
	}
	for _, action := range actions {
		selector, err := action.AppliesTo()
		c.keep("dia applies", err, selector)
		for _, name := range []string{"plain", "fail"} {
			c.keep("dia "+name, action.Execute(&velero.DeleteItemActionExecuteInput{Item: item(name), Backup: backup()}))
		}
	}
	return nil
}

func (c *caller) itemBlocks() error {
	actions, err := c.manager.GetItemBlockActions()
	if err != nil {
		return err
	}
	for _, action := range actions {
		selector, err := action.AppliesTo()
		c.keep("iba applies "+action.Name(), err, selector)
		related, err := action.GetRelatedItems(item("web"), backup())
		c.keep("iba related", err, names(related))
	}
	return nil
}
