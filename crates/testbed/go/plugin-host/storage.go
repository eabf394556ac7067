package main

import (
	"bytes"
	"io"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

func (c *caller) volumes() error {
	volumes, err := c.manager.GetVolumeSnapshotter("example.io/volumes")
	if err != nil {
		return err
	}
	c.keep("vs init", volumes.Init(map[string]string{"zone": "z1"}))
	volume := func(source string) *unstructured.Unstructured {
		return &unstructured.Unstructured{Object: map[string]any{
			"apiVersion": "v1", "kind": "PersistentVolume", "metadata": map[string]any{"name": "pv1"},
			"spec": map[string]any{source: map[string]any{"volumeHandle": "v1", "fsType": "ext4"}},
		}}
	}
	id, err := volumes.GetVolumeID(volume("csi"))
	c.keep("vs id", err, id)
	id, err = volumes.GetVolumeID(volume("nfs"))
	c.keep("vs no id", err, id)
	for _, id := range []string{"fast", "slow"} {
		kind, iops, err := volumes.GetVolumeInfo(id, "z2")
		c.keep("vs info "+id, err, kind, iops)
	}
	for _, id := range []string{"v1", "busy"} {
		snapshot, err := volumes.CreateSnapshot(id, "z2", map[string]string{"b": "2", "a": "1"})
		c.keep("vs snapshot "+id, err, snapshot)
	}
	iops := int64(100)
	id, err = volumes.CreateVolumeFromSnapshot("s1", "gp3", "z2", &iops)
	c.keep("vs volume", err, id)
	id, err = volumes.CreateVolumeFromSnapshot("s1", "gp3", "z2", nil)
	c.keep("vs volume without iops", err, id)
	changed, err := volumes.SetVolumeID(volume("csi"), "v2")
	c.keep("vs set", err, content(changed))
	c.keep("vs delete", volumes.DeleteSnapshot("s1"))
	again, err := c.manager.GetVolumeSnapshotter("example.io/volumes")
	if err != nil {
		return err
	}
	c.keep("vs init again", again.Init(map[string]string{"zone": "z9"}))
	snapshot, err := volumes.CreateSnapshot("v1", "z2", nil)
	c.keep("vs snapshot after init again", err, snapshot)
	return nil
}

func (c *caller) files() error {
	odd, err := c.manager.GetObjectStore("example.io/files")
	if err != nil {
		return err
	}
	c.keep("os init odd", odd.Init(map[string]string{"bucket": "b", "prefix": "", "region": "r"}))
	// An object store can be initialised once; for another configuration Velero looks it up again.
	files, err := c.manager.GetObjectStore("example.io/files")
	if err != nil {
		return err
	}
	c.keep("os init", files.Init(map[string]string{"bucket": "b", "prefix": "", "endpoint": "one"}))
	large := bytes.Repeat([]byte("0123456789abcdef"), 5<<16+1)
	for key, body := range map[string][]byte{
		"p/backups/b1/large": large, "p/backups/b1/small": []byte("x"), "p/backups/b2/small": []byte("y"), "p/top": []byte("z"),
	} {
		c.keep("os put "+key, files.PutObject("b", key, bytes.NewReader(body)))
	}
	c.keep("os put refused", files.PutObject("b", "refused", bytes.NewReader(large)))
	c.keep("os put empty", files.PutObject("b", "empty", bytes.NewReader(nil)))
	for _, key := range []string{"p/top", "p/none"} {
		exists, err := files.ObjectExists("b", key)
		c.keep("os exists "+key, err, exists)
	}
	for _, key := range []string{"p/backups/b1/large", "p/none"} {
		read, err := files.GetObject("b", key)
		if err == nil {
			var got []byte
			got, err = io.ReadAll(read)
			c.keep("os get "+key, err, bytes.Equal(got, large))
			continue
		}
		c.keep("os get "+key, err)
	}
	prefixes, err := files.ListCommonPrefixes("b", "p/backups/", "/")
	c.keep("os prefixes", err, prefixes)
	prefixes, err = files.ListCommonPrefixes("b", "none/", "/")
	c.keep("os no prefixes", err, len(prefixes))
	keys, err := files.ListObjects("b", "p/backups/b")
	c.keep("os list", err, keys)
	c.keep("os delete", files.DeleteObject("b", "p/top"))
	exists, err := files.ObjectExists("b", "p/top")
	c.keep("os exists after delete", err, exists)
	url, err := files.CreateSignedURL("b", "k", 10*time.Minute)
	c.keep("os url", err, url)
	again, err := c.manager.GetObjectStore("example.io/files")
	if err != nil {
		return err
	}
	c.keep("os init again", again.Init(map[string]string{"bucket": "b", "prefix": "", "endpoint": "two"}))
	url, err = again.CreateSignedURL("b", "k", 10*time.Minute)
	c.keep("os url after init again", err, url)
	return nil
}
