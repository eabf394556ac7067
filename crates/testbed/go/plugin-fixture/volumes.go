package main

import (
	"encoding/json"
	"fmt"

	"k8s.io/apimachinery/pkg/runtime"

	"github.com/vmware-tanzu/velero/pkg/plugin/framework"
)

// volumes takes snapshots of nothing. A PersistentVolume names its volume in `spec.fixture`.
//
// These volumes and snapshots fare badly:
//
//	nameless    its snapshot, or the volume that is made of it, has no name
//	exit-after  ends the process a moment after it has answered
//	crash       ends the process
//	hang        is not answered
type volumes struct {
	plugin
	zone string
}

func (v *volumes) Init(config map[string]string) error {
	text, err := json.Marshal(config)
	if err != nil {
		return err
	}
	note("Init %s %s %s", v.kind, v.name, text)
	if err := framework.ValidateVolumeSnapshotterConfigKeys(config, "zone", "credentialsFile"); err != nil {
		return err
	}
	v.zone = config["zone"]
	return nil
}

func spec(volume runtime.Unstructured) map[string]any {
	spec, _ := volume.UnstructuredContent()["spec"].(map[string]any)
	return spec
}

func (v *volumes) GetVolumeID(volume runtime.Unstructured) (string, error) {
	id, _ := spec(volume)["fixture"].(string)
	return id, nil
}

func (v *volumes) SetVolumeID(volume runtime.Unstructured, id string) (runtime.Unstructured, error) {
	spec(volume)["fixture"] = id
	return volume, nil
}

func (v *volumes) GetVolumeInfo(id, zone string) (string, *int64, error) {
	if id == "fast" {
		iops := int64(3000)
		return "gp3 in " + zone, &iops, nil
	}
	return "gp3 in " + zone, nil, nil
}

func (v *volumes) CreateSnapshot(id, zone string, tags map[string]string) (string, error) {
	switch id {
	case "nameless":
		return "", nil
	case "exit-after":
		exitSoon(0)
	case "crash":
		go func() { panic("no snapshots today") }()
		forever()
	case "hang":
		forever()
	}
	v.log.WithField("volumeID", id).Infof("snapshot in %s", v.zone)
	text, err := json.Marshal(tags)
	return fmt.Sprintf("snap of %s in %s with %s", id, zone, text), err
}

func (v *volumes) CreateVolumeFromSnapshot(snapshot, kind, zone string, iops *int64) (string, error) {
	if snapshot == "nameless" {
		return "", nil
	}
	rate := "none"
	if iops != nil {
		rate = fmt.Sprint(*iops)
	}
	return fmt.Sprintf("of %s, %s in %q with %s", snapshot, kind, zone, rate), nil
}

func (v *volumes) DeleteSnapshot(snapshot string) error {
	note("delete %s", snapshot)
	return nil
}
