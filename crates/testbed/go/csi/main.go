// csi-driver keeps the volumes of a node of the test bed. A volume is a file: one with an ext4 file system, or the bytes
// of a block device, behind a loop device while a pod uses it. A snapshot is a copy of the file, made while the file
// system is frozen; a group is copied while all of its file systems are. All services are on one socket, and kubelet
// finds the driver by itself. What exists is in state.json of the state folder, for tests to read.
package main

import (
	"flag"
	"log"
	"net"
	"os"
	"path/filepath"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/grpc"
	registration "k8s.io/kubelet/pkg/apis/pluginregistration/v1"
)

func main() {
	name := flag.String("name", "", "name of the driver")
	endpoint := flag.String("endpoint", "", "path of the socket of the CSI services")
	registry := flag.String("registry", "", "folder in which kubelet looks for plugins")
	node := flag.String("node", "", "name of the node")
	folder := flag.String("state", "", "folder of the volumes")
	flag.Parse()
	store, err := newStore(*folder)
	if err != nil {
		log.Fatal(err)
	}
	services := grpc.NewServer(grpc.UnaryInterceptor(logged))
	csi.RegisterIdentityServer(services, identity{name: *name})
	csi.RegisterControllerServer(services, &controller{store: store})
	csi.RegisterGroupControllerServer(services, &groups{store: store})
	csi.RegisterNodeServer(services, &nodeService{store: store, name: *node})
	kubelet := grpc.NewServer()
	registration.RegisterRegistrationServer(kubelet, registrar{name: *name, endpoint: *endpoint})
	go serve(kubelet, filepath.Join(*registry, *name+"-reg.sock"))
	serve(services, *endpoint)
}

func serve(server *grpc.Server, path string) {
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		log.Fatal(err)
	}
	os.Remove(path)
	listener, err := net.Listen("unix", path)
	if err != nil {
		log.Fatal(err)
	}
	log.Fatal(server.Serve(listener))
}
