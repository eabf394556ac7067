package main

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/timestamppb"
)

type groups struct {
	csi.UnimplementedGroupControllerServer
	store *store
}

func (g *groups) GroupControllerGetCapabilities(context.Context, *csi.GroupControllerGetCapabilitiesRequest) (*csi.GroupControllerGetCapabilitiesResponse, error) {
	rpc := &csi.GroupControllerServiceCapability_Rpc{Rpc: &csi.GroupControllerServiceCapability_RPC{
		Type: csi.GroupControllerServiceCapability_RPC_CREATE_DELETE_GET_VOLUME_GROUP_SNAPSHOT,
	}}
	return &csi.GroupControllerGetCapabilitiesResponse{
		Capabilities: []*csi.GroupControllerServiceCapability{{Type: rpc}},
	}, nil
}

// message tells of a group; the caller holds the lock.
func (g *groups) message(made *group) *csi.VolumeGroupSnapshot {
	out := &csi.VolumeGroupSnapshot{GroupSnapshotId: made.ID, CreationTime: timestamppb.New(made.Created), ReadyToUse: true}
	for _, id := range made.Snapshots {
		if s := g.store.Snapshots[id]; s != nil {
			message := s.message()
			out.Snapshots = append(out.Snapshots, message)
			out.ReadyToUse = out.ReadyToUse && message.ReadyToUse
		}
	}
	return out
}

func (g *groups) CreateVolumeGroupSnapshot(ctx context.Context, r *csi.CreateVolumeGroupSnapshotRequest) (*csi.CreateVolumeGroupSnapshotResponse, error) {
	name := "group " + r.Name
	end, err := g.store.begin(name)
	if err != nil {
		return nil, err
	}
	defer end()
	sources := slices.Sorted(slices.Values(r.SourceVolumeIds))
	made := &group{ID: id("group", r.Name), Name: r.Name, Volumes: sources, Created: time.Now()}
	want, err := wishes(r.Parameters)
	if err != nil {
		return nil, err
	}
	made.Fail = want.fail
	old, volumes, call, err := g.look(made, name)
	if err != nil || old != nil {
		return old, err
	}
	if err := want.before(ctx, "create-group", call); err != nil {
		return nil, err
	}
	var snapshots []*snapshot
	for _, v := range volumes {
		if want.failMember != "" && strings.HasSuffix(v.Claim, "/"+want.failMember) {
			return nil, status.Errorf(codes.Internal, "the class wants that the member %s fails", v.Claim)
		}
		of := r.Name + "/" + v.ID
		snapshots = append(snapshots, &snapshot{ID: id("snap", of), Name: of, Volume: v.ID, Claim: v.Claim, Group: made.ID})
		made.Claims = append(made.Claims, v.Claim)
	}
	if err := g.store.take(volumes, snapshots, want); err != nil {
		return nil, err
	}
	g.store.Lock()
	defer g.store.Unlock()
	for _, s := range snapshots {
		made.Snapshots = append(made.Snapshots, s.ID)
		g.store.Snapshots[s.ID] = s
	}
	g.store.Groups[made.ID] = made
	return &csi.CreateVolumeGroupSnapshotResponse{GroupSnapshot: g.message(made)}, g.store.save()
}

// look finds the group if it exists, or else its volumes and the number of the call.
func (g *groups) look(made *group, name string) (*csi.CreateVolumeGroupSnapshotResponse, []*volume, int, error) {
	g.store.Lock()
	defer g.store.Unlock()
	if old := g.store.Groups[made.ID]; old != nil {
		if !slices.Equal(old.Volumes, made.Volumes) {
			return nil, nil, 0, status.Errorf(codes.AlreadyExists, "the group %s has other volumes", made.Name)
		}
		return &csi.CreateVolumeGroupSnapshotResponse{GroupSnapshot: g.message(old)}, nil, 0, nil
	}
	var volumes []*volume
	for _, id := range made.Volumes {
		v := g.store.Volumes[id]
		if v == nil {
			return nil, nil, 0, status.Errorf(codes.NotFound, "there is no volume %s", id)
		}
		volumes = append(volumes, v)
	}
	return nil, volumes, g.store.calls[name], nil
}

// is refuses a call that does not name all snapshots of the group: a driver that can tell must.
func (made *group) is(ids []string) error {
	if !slices.Equal(slices.Sorted(slices.Values(ids)), slices.Sorted(slices.Values(made.Snapshots))) {
		return status.Errorf(codes.InvalidArgument, "the group %s has other snapshots than %v", made.ID, ids)
	}
	return nil
}

func (g *groups) DeleteVolumeGroupSnapshot(_ context.Context, r *csi.DeleteVolumeGroupSnapshotRequest) (*csi.DeleteVolumeGroupSnapshotResponse, error) {
	g.store.Lock()
	defer g.store.Unlock()
	made := g.store.Groups[r.GroupSnapshotId]
	if made == nil {
		return &csi.DeleteVolumeGroupSnapshotResponse{}, nil
	}
	if err := made.is(r.SnapshotIds); err != nil {
		return nil, err
	}
	if made.Fail == "delete-group" {
		return nil, status.Error(codes.Internal, "the class wants that deletions of groups fail")
	}
	for _, id := range made.Snapshots {
		if s := g.store.Snapshots[id]; s != nil {
			if err := g.store.drop(s); err != nil {
				return nil, err
			}
		}
	}
	delete(g.store.Groups, made.ID)
	return &csi.DeleteVolumeGroupSnapshotResponse{}, g.store.save()
}

func (g *groups) GetVolumeGroupSnapshot(_ context.Context, r *csi.GetVolumeGroupSnapshotRequest) (*csi.GetVolumeGroupSnapshotResponse, error) {
	g.store.Lock()
	defer g.store.Unlock()
	made := g.store.Groups[r.GroupSnapshotId]
	if made == nil {
		return nil, status.Errorf(codes.NotFound, "there is no group %s", r.GroupSnapshotId)
	}
	if err := made.is(r.SnapshotIds); err != nil {
		return nil, err
	}
	return &csi.GetVolumeGroupSnapshotResponse{GroupSnapshot: g.message(made)}, nil
}
