package main

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

type nodeService struct {
	csi.UnimplementedNodeServer
	store *store
	name  string
}

func (n *nodeService) NodeGetInfo(context.Context, *csi.NodeGetInfoRequest) (*csi.NodeGetInfoResponse, error) {
	return &csi.NodeGetInfoResponse{NodeId: n.name}, nil
}

func (n *nodeService) NodeGetCapabilities(context.Context, *csi.NodeGetCapabilitiesRequest) (*csi.NodeGetCapabilitiesResponse, error) {
	rpc := &csi.NodeServiceCapability_Rpc{Rpc: &csi.NodeServiceCapability_RPC{Type: csi.NodeServiceCapability_RPC_SINGLE_NODE_MULTI_WRITER}}
	return &csi.NodeGetCapabilitiesResponse{Capabilities: []*csi.NodeServiceCapability{{Type: rpc}}}, nil
}

func (n *nodeService) NodePublishVolume(_ context.Context, r *csi.NodePublishVolumeRequest) (*csi.NodePublishVolumeResponse, error) {
	n.store.Lock()
	defer n.store.Unlock()
	v := n.store.Volumes[r.VolumeId]
	if v == nil {
		return nil, status.Errorf(codes.NotFound, "there is no volume %s", r.VolumeId)
	}
	if v.Block != (r.VolumeCapability.GetBlock() != nil) {
		return nil, status.Errorf(codes.InvalidArgument, "the volume %s has another mode", v.ID)
	}
	if mounted(r.TargetPath) {
		return &csi.NodePublishVolumeResponse{}, nil
	}
	source, err := n.source(v)
	if err != nil {
		return nil, err
	}
	if err := place(r.TargetPath, v.Block); err != nil {
		return nil, internal(err)
	}
	if err := run("mount", "--bind", source, r.TargetPath); err != nil {
		return nil, err
	}
	if r.Readonly && !v.Block {
		if err := run("mount", "-o", "remount,bind,ro", r.TargetPath); err != nil {
			return nil, err
		}
	}
	if v.Targets == nil {
		v.Targets = map[string]bool{}
	}
	v.Targets[r.TargetPath] = true
	return &csi.NodePublishVolumeResponse{}, n.store.save()
}

// place makes what a volume is bound to.
func place(path string, block bool) error {
	if !block {
		return os.MkdirAll(path, 0o750)
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o750); err != nil {
		return err
	}
	file, err := os.OpenFile(path, os.O_CREATE, 0o600)
	if err != nil {
		return err
	}
	return file.Close()
}

// source is what pods see of a volume: its device, or its mounted file system.
func (n *nodeService) source(v *volume) (string, error) {
	image := n.store.image(v.ID)
	if v.Block {
		if v.Device == "" {
			out, err := exec.Command("losetup", "--find", "--show", image).CombinedOutput()
			if err != nil {
				return "", status.Errorf(codes.Internal, "losetup: %v: %s", err, out)
			}
			v.Device = strings.TrimSpace(string(out))
		}
		return v.Device, nil
	}
	path := n.store.mount(v.ID)
	if mounted(path) {
		return path, nil
	}
	if err := os.MkdirAll(path, 0o755); err != nil {
		return "", internal(err)
	}
	if err := run("mount", "-o", "loop", image, path); err != nil {
		return "", err
	}
	if v.Fresh {
		v.Fresh = false
		os.Remove(filepath.Join(path, "lost+found"))
		return path, internal(os.Chmod(path, 0o777))
	}
	return path, nil
}

func (n *nodeService) NodeUnpublishVolume(_ context.Context, r *csi.NodeUnpublishVolumeRequest) (*csi.NodeUnpublishVolumeResponse, error) {
	n.store.Lock()
	defer n.store.Unlock()
	for mounted(r.TargetPath) {
		if err := run("umount", r.TargetPath); err != nil {
			return nil, err
		}
	}
	if err := os.Remove(r.TargetPath); err != nil && !os.IsNotExist(err) {
		return nil, internal(err)
	}
	v := n.store.Volumes[r.VolumeId]
	if v == nil {
		return &csi.NodeUnpublishVolumeResponse{}, nil
	}
	delete(v.Targets, r.TargetPath)
	if len(v.Targets) == 0 {
		if v.Device != "" {
			if err := run("losetup", "--detach", v.Device); err != nil {
				return nil, err
			}
			v.Device = ""
		}
		if path := n.store.mount(v.ID); mounted(path) {
			if err := run("umount", path); err != nil {
				return nil, err
			}
		}
	}
	return &csi.NodeUnpublishVolumeResponse{}, n.store.save()
}
