// Informers of all types that a cluster lets watch, as controllers have them: dynamic ones of every type that discovery lists, and
// typed ones that ask for protobuf first. Once all are in sync and watch, it prints as JSON how many objects each has.
//
//	KUBECONFIG=FILE KUBE_FEATURE_WatchListClient=false informers
package main

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/dynamic/dynamicinformer"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/clientcmd"
)

// patience is how long everything may take.
const patience = time.Minute

// protobuf is what controllers ask for; JSON is what they take too.
const protobuf = "application/vnd.kubernetes.protobuf"

// requests are those that went well.
type requests struct {
	lock sync.Mutex
	// Lists has the paths that were listed.
	Lists []string
	// Watches has the paths that are watched.
	Watches []string
}

// answer is what is printed.
type answer struct {
	// Dynamic has the number of objects of each type, by its plural with its group.
	Dynamic map[string]int `json:"dynamic"`
	// Typed has the same of some built-in types.
	Typed map[string]int `json:"typed"`
	// Lists is how many lists were asked for.
	Lists int `json:"lists"`
	// Watches is how many watches were begun.
	Watches int `json:"watches"`
	// Errors has what informers told.
	Errors []string `json:"errors"`
}

type seen struct {
	requests *requests
	next     http.RoundTripper
}

func (s seen) RoundTrip(request *http.Request) (*http.Response, error) {
	response, err := s.next.RoundTrip(request)
	if err != nil || response.StatusCode != http.StatusOK {
		return response, err
	}
	s.requests.lock.Lock()
	defer s.requests.lock.Unlock()
	query := request.URL.Query()
	switch {
	case query.Get("watch") == "true" || query.Get("watch") == "1":
		s.requests.Watches = append(s.requests.Watches, request.URL.Path)
	case query.Has("limit") || query.Has("resourceVersion"):
		s.requests.Lists = append(s.requests.Lists, request.URL.Path)
	}
	return response, nil
}

func main() {
	found, err := run()
	if err == nil {
		err = json.NewEncoder(os.Stdout).Encode(found)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run() (*answer, error) {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	config, err := clientcmd.BuildConfigFromFlags("", os.Getenv("KUBECONFIG"))
	if err != nil {
		return nil, err
	}
	config.QPS = -1
	all := &requests{}
	config.Wrap(func(next http.RoundTripper) http.RoundTripper { return seen{all, next} })
	types, err := watched(config)
	if err != nil {
		return nil, fmt.Errorf("ask which types there are: %w", err)
	}
	of, err := ofTypes(config, types)
	if err != nil {
		return nil, err
	}
	errors := make(chan string, 1000)
	for name, informer := range of {
		err := informer.SetWatchErrorHandlerWithContext(func(_ context.Context, _ *cache.Reflector, err error) {
			select {
			case errors <- fmt.Sprintf("%s: %v", name, err):
			default:
			}
		})
		if err != nil {
			return nil, err
		}
		go informer.RunWithContext(ctx)
	}
	for name, informer := range of {
		if !cache.WaitForCacheSync(ctx.Done(), informer.HasSynced) {
			return nil, fmt.Errorf("the informer of %s is not in sync after %s: %v", name, patience, drained(errors))
		}
	}
	if err := all.untilWatched(ctx, len(of)); err != nil {
		return nil, err
	}
	found := &answer{Dynamic: map[string]int{}, Typed: map[string]int{}, Errors: drained(errors)}
	for name, informer := range of {
		count := len(informer.GetStore().ListKeys())
		if typed, is := strings.CutPrefix(name, "typed "); is {
			found.Typed[typed] = count
		} else {
			found.Dynamic[name] = count
		}
	}
	all.lock.Lock()
	defer all.lock.Unlock()
	found.Lists, found.Watches = len(all.Lists), len(all.Watches)
	return found, nil
}

// watched gives the types that can be listed and watched, each in its preferred version.
func watched(config *rest.Config) ([]schema.GroupVersionResource, error) {
	client, err := discovery.NewDiscoveryClientForConfig(config)
	if err != nil {
		return nil, err
	}
	lists, err := client.ServerPreferredResources()
	if err != nil {
		return nil, err
	}
	var types []schema.GroupVersionResource
	for _, list := range lists {
		version, err := schema.ParseGroupVersion(list.GroupVersion)
		if err != nil {
			return nil, err
		}
		for _, one := range list.APIResources {
			if slices.Contains(one.Verbs, "list") && slices.Contains(one.Verbs, "watch") {
				types = append(types, version.WithResource(one.Name))
			}
		}
	}
	return types, nil
}

// ofTypes makes an informer of each type, and typed ones of some.
func ofTypes(config *rest.Config, types []schema.GroupVersionResource) (map[string]cache.SharedIndexInformer, error) {
	dynamically, err := dynamic.NewForConfig(config)
	if err != nil {
		return nil, err
	}
	of := map[string]cache.SharedIndexInformer{}
	factory := dynamicinformer.NewDynamicSharedInformerFactory(dynamically, 0)
	for _, one := range types {
		of[one.GroupResource().String()] = factory.ForResource(one).Informer()
	}
	preferring := rest.CopyConfig(config)
	preferring.ContentType = protobuf
	preferring.AcceptContentTypes = protobuf + ",application/json"
	client, err := kubernetes.NewForConfig(preferring)
	if err != nil {
		return nil, err
	}
	typed := informers.NewSharedInformerFactory(client, 0)
	core, apps, batch := typed.Core().V1(), typed.Apps().V1(), typed.Batch().V1()
	for name, informer := range map[string]cache.SharedIndexInformer{
		"configmaps":                      core.ConfigMaps().Informer(),
		"namespaces":                      core.Namespaces().Informer(),
		"nodes":                           core.Nodes().Informer(),
		"pods":                            core.Pods().Informer(),
		"secrets":                         core.Secrets().Informer(),
		"services":                        core.Services().Informer(),
		"deployments.apps":                apps.Deployments().Informer(),
		"statefulsets.apps":               apps.StatefulSets().Informer(),
		"jobs.batch":                      batch.Jobs().Informer(),
		"endpointslices.discovery.k8s.io": typed.Discovery().V1().EndpointSlices().Informer(),
	} {
		of["typed "+name] = informer
	}
	return of, nil
}

// untilWatched waits until there are so many watches: an informer that has listed is in sync before it watches.
func (r *requests) untilWatched(ctx context.Context, count int) error {
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		r.lock.Lock()
		begun := len(r.Watches)
		r.lock.Unlock()
		if begun >= count {
			return nil
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return fmt.Errorf("%d of %d watches were begun after %s", begun, count, patience)
		}
	}
}

// drained gives what has come so far.
func drained(errors chan string) []string {
	all := []string{}
	for {
		select {
		case one := <-errors:
			all = append(all, one)
		default:
			return all
		}
	}
}
