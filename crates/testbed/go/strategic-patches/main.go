// Prints what Kubernetes' own library makes of strategic merge patches, as JSON: a list of cases with an object, a patch, and the result, which
// is null where the library refuses the patch. crates/patch has the output of `go run .` as strategic/apimachinery.json.
package main

import (
	"encoding/json"
	"fmt"
	"math/rand"
	"os"
	"strings"

	"k8s.io/apimachinery/pkg/util/strategicpatch"
)

// The type of the tests in crates/patch/src/strategic/tests.rs.
type Deployment struct {
	Metadata Meta `json:"metadata,omitempty"`
	Spec     Spec `json:"spec,omitempty"`
}

type Meta struct {
	Labels     map[string]string `json:"labels,omitempty"`
	Finalizers []string          `json:"finalizers,omitempty" patchStrategy:"merge"`
}

type Spec struct {
	Replicas   int         `json:"replicas,omitempty"`
	Paused     bool        `json:"paused,omitempty"`
	Whole      Strategy    `json:"whole,omitempty" patchStrategy:"replace"`
	Strategy   Strategy    `json:"strategy,omitempty" patchStrategy:"retainKeys"`
	Args       []string    `json:"args,omitempty"`
	Containers []Container `json:"containers,omitempty" patchStrategy:"merge" patchMergeKey:"name"`
}

type Strategy struct {
	Type          string            `json:"type,omitempty"`
	RollingUpdate map[string]string `json:"rollingUpdate,omitempty"`
}

type Container struct {
	Name  string `json:"name"`
	Image string `json:"image,omitempty"`
	Env   []Env  `json:"env,omitempty" patchStrategy:"merge" patchMergeKey:"name"`
}

type Env struct {
	Name  string `json:"name"`
	Value string `json:"value,omitempty"`
}

type object = map[string]any

type random struct{ *rand.Rand }

// Some of the names, each once, in any order.
func (r random) names(all string) []string {
	var out []string
	for _, at := range r.Perm(len(all))[:r.Intn(len(all)+1)] {
		out = append(out, all[at:at+1])
	}
	return out
}

func (r random) env(isPatch bool) []any {
	out := []any{}
	for _, name := range r.names("XYZ") {
		one := object{"name": name, "value": fmt.Sprint(r.Intn(3))}
		if isPatch && r.Intn(5) == 0 {
			one = object{"name": name, "$patch": "delete"}
		}
		out = append(out, one)
	}
	return out
}

func (r random) containers(isPatch bool) []any {
	out := []any{}
	for _, name := range r.names("abcd") {
		one := object{"name": name}
		if r.Intn(2) == 0 {
			one["image"] = fmt.Sprintf("i:%d", r.Intn(3))
		}
		if r.Intn(3) == 0 {
			one["env"] = r.env(isPatch)
		}
		if isPatch {
			switch r.Intn(12) {
			case 0:
				one = object{"name": name, "$patch": "delete"}
			case 1:
				one["$patch"] = "replace"
			case 3:
				one["image"] = nil
			}
		}
		out = append(out, one)
	}
	if isPatch && r.Intn(6) == 0 {
		out = append(out, object{"$patch": "replace"})
	}
	return out
}

// An order of elements: mostly that of the elements themselves, with others in between. None for lists that are replaced, whose elements the
// library then puts in an order that depends on how it sorts.
func (r random) order(elements any) []any {
	var out []any
	others := r.names("abcd")
	seen := map[any]bool{}
	add := func(name any) {
		if name != nil && !seen[name] {
			seen[name] = true
			out = append(out, object{"name": name})
		}
	}
	list, _ := elements.([]any)
	for _, one := range list {
		element := one.(object)
		if element["$patch"] == "replace" {
			return nil
		}
		if r.Intn(4) == 0 && len(others) > 0 {
			add(others[0])
			others = others[1:]
		}
		add(element["name"])
	}
	for _, name := range others {
		add(name)
	}
	return out
}

func texts(names []string) []any {
	out := []any{}
	for _, name := range names {
		out = append(out, name)
	}
	return out
}

func (r random) make(isPatch bool) object {
	spec, metadata := object{}, object{}
	some := func() bool { return r.Intn(3) == 0 }
	if r.Intn(4) > 0 {
		spec["containers"] = r.containers(isPatch)
	}
	if some() {
		spec["args"] = texts(r.names("xyz"))
	}
	if some() {
		metadata["finalizers"] = texts(r.names("abcd"))
	}
	if some() {
		spec["strategy"] = object{"type": "A"}
		if isPatch && some() {
			spec["strategy"] = object{"$retainKeys": texts([]string{"type"}), "type": "B"}
		} else if some() {
			spec["strategy"] = object{"type": "C", "rollingUpdate": object{"m": "1"}}
		}
		if isPatch && r.Intn(6) == 0 {
			spec["strategy"] = object{"$retainKeys": texts([]string{"rollingUpdate"}), "type": "B"}
		}
	}
	if some() {
		spec["whole"] = object{"type": fmt.Sprint(r.Intn(3))}
	}
	if isPatch {
		if order := r.order(spec["containers"]); some() && len(order) > 0 {
			spec["$setElementOrder/containers"] = order
		}
		if r.Intn(5) == 0 {
			// With both, it depends on chance which is done first.
			delete(metadata, "finalizers")
			metadata["$deleteFromPrimitiveList/finalizers"] = texts(r.names("ab"))
		}
		if r.Intn(5) == 0 {
			metadata["$setElementOrder/finalizers"] = texts(r.names("abcd"))
		}
		if r.Intn(20) == 0 {
			spec["$patch"] = []string{"replace", "delete", "merge"}[r.Intn(3)]
		}
		if r.Intn(10) == 0 {
			spec["args"] = nil
		}
	}
	return object{"spec": spec, "metadata": metadata}
}

func main() {
	r := random{rand.New(rand.NewSource(1))}
	cases := []any{}
	for len(cases) < 250 {
		before, patch := r.make(false), r.make(true)
		text := func(value any) []byte { out, _ := json.Marshal(value); return out }
		var result any
		if after, err := strategicpatch.StrategicMergePatch(text(before), text(patch), Deployment{}); err == nil {
			if strings.Contains(string(after), `"$patch"`) || strings.Contains(string(after), `["rollingUpdate"]`) {
				// What is new is taken as it is: an element that the patch deletes would be made, and what is not retained is kept.
				continue
			}
			if err := json.Unmarshal(after, &result); err != nil {
				panic(err)
			}
		} else if strings.Contains(err.Error(), "no elements in any of the given slices") {
			// It does not know then of which type the elements of an empty list are.
			continue
		}
		cases = append(cases, object{"object": before, "patch": patch, "result": result})
	}
	encoder := json.NewEncoder(os.Stdout)
	fmt.Println("[")
	for at, one := range cases {
		if at > 0 {
			fmt.Print(",")
		}
		if err := encoder.Encode(one); err != nil {
			panic(err)
		}
	}
	fmt.Println("]")
}
