package main

import (
	"context"
	"os"
	"sort"
	"strconv"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/timestamppb"
	"time"
)

type controller struct {
	csi.UnimplementedControllerServer
	store *store
}

func (c *controller) ControllerGetCapabilities(context.Context, *csi.ControllerGetCapabilitiesRequest) (*csi.ControllerGetCapabilitiesResponse, error) {
	var out csi.ControllerGetCapabilitiesResponse
	for _, can := range []csi.ControllerServiceCapability_RPC_Type{
		csi.ControllerServiceCapability_RPC_CREATE_DELETE_VOLUME,
		csi.ControllerServiceCapability_RPC_CREATE_DELETE_SNAPSHOT,
		csi.ControllerServiceCapability_RPC_LIST_SNAPSHOTS,
		csi.ControllerServiceCapability_RPC_CLONE_VOLUME,
		csi.ControllerServiceCapability_RPC_SINGLE_NODE_MULTI_WRITER,
	} {
		rpc := &csi.ControllerServiceCapability_Rpc{Rpc: &csi.ControllerServiceCapability_RPC{Type: can}}
		out.Capabilities = append(out.Capabilities, &csi.ControllerServiceCapability{Type: rpc})
	}
	return &out, nil
}

func (c *controller) ValidateVolumeCapabilities(_ context.Context, r *csi.ValidateVolumeCapabilitiesRequest) (*csi.ValidateVolumeCapabilitiesResponse, error) {
	c.store.Lock()
	defer c.store.Unlock()
	if c.store.Volumes[r.VolumeId] == nil {
		return nil, status.Errorf(codes.NotFound, "there is no volume %s", r.VolumeId)
	}
	confirmed := &csi.ValidateVolumeCapabilitiesResponse_Confirmed{VolumeCapabilities: r.VolumeCapabilities}
	return &csi.ValidateVolumeCapabilitiesResponse{Confirmed: confirmed}, nil
}

func (c *controller) CreateVolume(_ context.Context, r *csi.CreateVolumeRequest) (*csi.CreateVolumeResponse, error) {
	if r.Parameters["fail"] == "create-volume" {
		return nil, status.Error(codes.Internal, "the class wants that volumes fail")
	}
	end, err := c.store.begin("volume " + r.Name)
	if err != nil {
		return nil, err
	}
	defer end()
	v := &volume{
		ID: id("vol", r.Name), Name: r.Name, Size: max(r.GetCapacityRange().GetRequiredBytes(), 16<<20), Targets: map[string]bool{},
		Claim: r.Parameters["csi.storage.k8s.io/pvc/namespace"] + "/" + r.Parameters["csi.storage.k8s.io/pvc/name"],
	}
	for _, capability := range r.VolumeCapabilities {
		v.Block = v.Block || capability.GetBlock() != nil
	}
	answer := &csi.CreateVolumeResponse{Volume: &csi.Volume{VolumeId: v.ID, CapacityBytes: v.Size, ContentSource: r.VolumeContentSource}}
	source, err := c.source(v, r.VolumeContentSource)
	if err != nil || source == nil {
		return answer, err
	}
	if err := source(); err != nil {
		return nil, err
	}
	c.store.Lock()
	defer c.store.Unlock()
	c.store.Volumes[v.ID] = v
	return answer, c.store.save()
}

// source gives what fills a new volume; nothing for a volume that exists.
func (c *controller) source(v *volume, from *csi.VolumeContentSource) (func() error, error) {
	s := c.store
	s.Lock()
	defer s.Unlock()
	if old := s.Volumes[v.ID]; old != nil {
		if old.Block != v.Block || old.Size < v.Size {
			return nil, status.Errorf(codes.AlreadyExists, "the volume %s exists, with another mode or size", v.Name)
		}
		return nil, nil
	}
	image := s.image(v.ID)
	if from == nil {
		v.Fresh = true
		return func() error { return makeImage(image, v) }, nil
	}
	var block bool
	var size int64
	if wanted := from.GetSnapshot().GetSnapshotId(); wanted != "" {
		found := s.Snapshots[wanted]
		if found == nil {
			return nil, status.Errorf(codes.NotFound, "there is no snapshot %s", wanted)
		}
		if time.Now().Before(found.Ready) {
			return nil, status.Errorf(codes.Unavailable, "the snapshot %s is not ready", wanted)
		}
		v.Source, block, size = found.ID, found.Block, found.Size
	} else {
		wanted := from.GetVolume().GetVolumeId()
		found := s.Volumes[wanted]
		if found == nil {
			return nil, status.Errorf(codes.NotFound, "there is no volume %s", wanted)
		}
		v.Source, block, size = found.ID, found.Block, found.Size
	}
	if block != v.Block {
		return nil, status.Errorf(codes.InvalidArgument, "%s has another volume mode", v.Source)
	}
	if size > v.Size {
		return nil, status.Errorf(codes.OutOfRange, "%s has %d bytes, the volume %d", v.Source, size, v.Size)
	}
	old := s.image(v.Source)
	return func() error {
		if err := copyImage(old, image); err != nil {
			return err
		}
		return internal(os.Truncate(image, v.Size))
	}, nil
}

func makeImage(path string, v *volume) error {
	file, err := os.Create(path)
	if err != nil {
		return internal(err)
	}
	file.Close()
	if err := os.Truncate(path, v.Size); err != nil {
		return internal(err)
	}
	if v.Block {
		return nil
	}
	return run("mkfs.ext4", "-q", "-F", "-m", "0", path)
}

func (c *controller) DeleteVolume(_ context.Context, r *csi.DeleteVolumeRequest) (*csi.DeleteVolumeResponse, error) {
	c.store.Lock()
	defer c.store.Unlock()
	v := c.store.Volumes[r.VolumeId]
	if v == nil {
		return &csi.DeleteVolumeResponse{}, nil
	}
	if len(v.Targets) > 0 {
		return nil, status.Errorf(codes.FailedPrecondition, "the volume %s is in use", v.ID)
	}
	if err := os.Remove(c.store.image(v.ID)); err != nil && !os.IsNotExist(err) {
		return nil, internal(err)
	}
	delete(c.store.Volumes, v.ID)
	return &csi.DeleteVolumeResponse{}, c.store.save()
}

func (s *snapshot) message() *csi.Snapshot {
	return &csi.Snapshot{
		SnapshotId: s.ID, SourceVolumeId: s.Volume, SizeBytes: s.Size, CreationTime: timestamppb.New(s.Created),
		ReadyToUse: !time.Now().Before(s.Ready), GroupSnapshotId: s.Group,
	}
}

func (c *controller) CreateSnapshot(ctx context.Context, r *csi.CreateSnapshotRequest) (*csi.CreateSnapshotResponse, error) {
	name := "snapshot " + r.Name
	end, err := c.store.begin(name)
	if err != nil {
		return nil, err
	}
	defer end()
	c.store.Lock()
	old, v, call := c.store.Snapshots[id("snap", r.Name)], c.store.Volumes[r.SourceVolumeId], c.store.calls[name]
	c.store.Unlock()
	if old != nil {
		if old.Volume != r.SourceVolumeId {
			return nil, status.Errorf(codes.AlreadyExists, "the snapshot %s is of another volume", r.Name)
		}
		return &csi.CreateSnapshotResponse{Snapshot: old.message()}, nil
	}
	if v == nil {
		return nil, status.Errorf(codes.NotFound, "there is no volume %s", r.SourceVolumeId)
	}
	want, err := wishes(r.Parameters)
	if err != nil {
		return nil, err
	}
	if err := want.before(ctx, "create-snapshot", call); err != nil {
		return nil, err
	}
	s := &snapshot{ID: id("snap", r.Name), Name: r.Name, Volume: v.ID, Claim: v.Claim}
	if err := c.store.take([]*volume{v}, []*snapshot{s}, want); err != nil {
		return nil, err
	}
	c.store.Lock()
	defer c.store.Unlock()
	c.store.Snapshots[s.ID] = s
	return &csi.CreateSnapshotResponse{Snapshot: s.message()}, c.store.save()
}

// take copies volumes, all at one moment: the first is copied when the last one stands still.
func (s *store) take(volumes []*volume, into []*snapshot, want wanted) error {
	for _, v := range volumes {
		thaw, err := s.freeze(v)
		if err != nil {
			return err
		}
		defer thaw()
	}
	now := time.Now()
	for i, v := range volumes {
		snap := into[i]
		snap.Size, snap.Block, snap.Created, snap.Ready, snap.Fail = v.Size, v.Block, now, now.Add(want.readyAfter), want.fail
		if err := copyImage(s.image(v.ID), s.image(snap.ID)); err != nil {
			for _, made := range into[:i] {
				os.Remove(s.image(made.ID))
			}
			return err
		}
	}
	return nil
}

func (c *controller) DeleteSnapshot(_ context.Context, r *csi.DeleteSnapshotRequest) (*csi.DeleteSnapshotResponse, error) {
	c.store.Lock()
	defer c.store.Unlock()
	s := c.store.Snapshots[r.SnapshotId]
	if s == nil {
		return &csi.DeleteSnapshotResponse{}, nil
	}
	if s.Group != "" {
		return nil, status.Errorf(codes.InvalidArgument, "the snapshot %s belongs to the group %s", s.ID, s.Group)
	}
	if s.Fail == "delete-snapshot" {
		return nil, status.Error(codes.Internal, "the class wants that deletions of snapshots fail")
	}
	if err := c.store.drop(s); err != nil {
		return nil, err
	}
	return &csi.DeleteSnapshotResponse{}, c.store.save()
}

func (s *store) drop(snap *snapshot) error {
	if err := os.Remove(s.image(snap.ID)); err != nil && !os.IsNotExist(err) {
		return internal(err)
	}
	delete(s.Snapshots, snap.ID)
	return nil
}

func (c *controller) ListSnapshots(_ context.Context, r *csi.ListSnapshotsRequest) (*csi.ListSnapshotsResponse, error) {
	c.store.Lock()
	defer c.store.Unlock()
	var ids []string
	for id, s := range c.store.Snapshots {
		if (r.SnapshotId == "" || r.SnapshotId == id) && (r.SourceVolumeId == "" || r.SourceVolumeId == s.Volume) {
			ids = append(ids, id)
		}
	}
	sort.Strings(ids)
	first := 0
	if r.StartingToken != "" {
		at, err := strconv.Atoi(r.StartingToken)
		if err != nil || at < 0 || at > len(ids) {
			return nil, status.Error(codes.Aborted, "the token is none of ours")
		}
		first = at
	}
	var out csi.ListSnapshotsResponse
	for i := first; i < len(ids); i++ {
		if r.MaxEntries > 0 && i-first == int(r.MaxEntries) {
			out.NextToken = strconv.Itoa(i)
			break
		}
		out.Entries = append(out.Entries, &csi.ListSnapshotsResponse_Entry{Snapshot: c.store.Snapshots[ids[i]].message()})
	}
	return &out, nil
}
