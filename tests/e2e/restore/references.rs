//! Tests that references to namespaces in objects follow the namespace mapping.

use crate::support::{Bed, eventually};
use serde_json::{Value, json};
use std::collections::BTreeMap;

/// An object, and the places in it that name the namespace `shop`.
struct Named {
    object: Value,
    places: &'static [&'static str],
}

fn selector() -> Value {
    json!({"matchLabels": {"kubernetes.io/metadata.name": "shop"}})
}

fn own(name: &str) -> Value {
    json!({"name": name, "namespace": "shop"})
}

/// The definition of a type of the Gateway API, which takes everything.
fn routes() -> Value {
    json!({"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": "httproutes.gateway.networking.k8s.io", "annotations": {"api-approved.kubernetes.io": "unapproved, a test"}},
        "spec": {"group": "gateway.networking.k8s.io", "scope": "Namespaced",
            "names": {"kind": "HTTPRoute", "plural": "httproutes", "singular": "httproute", "listKind": "HTTPRouteList"},
            "versions": [{"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema":
                {"type": "object", "x-kubernetes-preserve-unknown-fields": true}}}]}})
}

#[rustfmt::skip]
fn objects() -> Vec<Named> {
    let labels = json!({"app": "web"});
    let term = json!({"topologyKey": "zone", "labelSelector": {"matchLabels": labels}, "namespaces": ["shop"], "namespaceSelector": selector()});
    let pod = json!({"affinity": {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}, "containers": [{"name": "c", "image": "i"}]});
    let called = json!({"service": {"name": "web", "namespace": "shop"}});
    let webhook = json!({"name": "web.example.org", "clientConfig": called, "namespaceSelector": selector(), "failurePolicy": "Ignore",
        "sideEffects": "None", "admissionReviewVersions": ["v1"], "rules": [{"apiGroups": ["none.example.org"], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["none"]}]});
    let annotations = json!({"cert-manager.io/inject-ca-from": "shop/web"});
    vec![
        Named {
            object: json!({"apiVersion": "networking.k8s.io/v1", "kind": "NetworkPolicy", "metadata": own("near"),
                "spec": {"podSelector": {}, "ingress": [{"from": [{"namespaceSelector": selector()}]}]}}),
            places: &["/spec/ingress/0/from/0/namespaceSelector/matchLabels/kubernetes.io~1metadata.name"],
        },
        Named {
            object: json!({"apiVersion": "v1", "kind": "Service", "metadata": own("alias"),
                "spec": {"type": "ExternalName", "externalName": "web.shop.svc.cluster.local"}}),
            places: &["/spec/externalName"],
        },
        Named {
            object: json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": own("web"),
                "spec": {"replicas": 0, "selector": {"matchLabels": labels}, "template": {"metadata": {"labels": labels}, "spec": pod}}}),
            places: &[
                "/spec/template/spec/affinity/podAntiAffinity/requiredDuringSchedulingIgnoredDuringExecution/0/namespaces/0",
                "/spec/template/spec/affinity/podAntiAffinity/requiredDuringSchedulingIgnoredDuringExecution/0/namespaceSelector/matchLabels/kubernetes.io~1metadata.name",
            ],
        },
        Named {
            object: json!({"apiVersion": "gateway.networking.k8s.io/v1", "kind": "HTTPRoute", "metadata": {"name": "web", "namespace": "other"},
                "spec": {"parentRefs": [own("gate")], "rules": [{"backendRefs": [own("web")]}]}}),
            places: &["/spec/parentRefs/0/namespace", "/spec/rules/0/backendRefs/0/namespace"],
        },
        Named {
            object: json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRoleBinding", "metadata": {"name": "shop-views"},
                "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "view"},
                "subjects": [{"kind": "Group", "apiGroup": "rbac.authorization.k8s.io", "name": "system:serviceaccounts:shop"}, {"kind": "ServiceAccount", "name": "web", "namespace": "shop"}]}),
            places: &["/subjects/0/name", "/subjects/1/namespace"],
        },
        Named {
            object: json!({"apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingWebhookConfiguration",
                "metadata": {"name": "shop-checks", "annotations": annotations}, "webhooks": [webhook]}),
            places: &["/metadata/annotations/cert-manager.io~1inject-ca-from", "/webhooks/0/clientConfig/service/namespace",
                "/webhooks/0/namespaceSelector/matchLabels/kubernetes.io~1metadata.name"],
        },
        Named {
            object: json!({"apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingAdmissionPolicyBinding", "metadata": {"name": "shop-rules"},
                "spec": {"policyName": "none", "validationActions": ["Warn"], "matchResources": {"namespaceSelector": selector()},
                    "paramRef": {"name": "p", "namespace": "shop", "parameterNotFoundAction": "Allow"}}}),
            places: &["/spec/matchResources/namespaceSelector/matchLabels/kubernetes.io~1metadata.name", "/spec/paramRef/namespace"],
        },
        Named {
            object: json!({"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
                "metadata": {"name": "widgets.example.com", "annotations": annotations}, "spec": {"group": "example.com", "scope": "Namespaced",
                    "names": {"kind": "Widget", "plural": "widgets", "singular": "widget", "listKind": "WidgetList"},
                    "conversion": {"strategy": "Webhook", "webhook": {"conversionReviewVersions": ["v1"], "clientConfig": called}},
                    "versions": [{"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": {"type": "object"}}}]}}),
            places: &["/metadata/annotations/cert-manager.io~1inject-ca-from", "/spec/conversion/webhook/clientConfig/service/namespace"],
        },
        Named {
            object: json!({"apiVersion": "flowcontrol.apiserver.k8s.io/v1", "kind": "FlowSchema", "metadata": {"name": "shop-first"},
                "spec": {"priorityLevelConfiguration": {"name": "workload-low"}, "matchingPrecedence": 900, "rules": [{
                    "subjects": [{"kind": "ServiceAccount", "serviceAccount": own("web")}],
                    "nonResourceRules": [{"verbs": ["get"], "nonResourceURLs": ["/shop"]}]}]}}),
            places: &["/spec/rules/0/subjects/0/serviceAccount/namespace"],
        },
        Named {
            object: json!({"apiVersion": "networking.k8s.io/v1", "kind": "IngressClass", "metadata": {"name": "shop-class"},
                "spec": {"controller": "example.org/shop", "parameters": {"kind": "ConfigMap", "scope": "Namespace", "name": "shop", "namespace": "shop"}}}),
            places: &["/spec/parameters/namespace"],
        },
    ]
}

/// An object of the cluster without what is of one life, the status, and the labels of a restore.
fn live(bed: &Bed, named: &Named, namespace: Option<&str>) -> Value {
    let object = &named.object;
    let text = |field: &Value| field.as_str().expect("text").to_owned();
    let (kind, group) = (text(&object["kind"]), text(&object["apiVersion"]));
    let kind = group.split_once('/').map_or(kind.clone(), |(group, version)| format!("{kind}.{version}.{group}"));
    let name = text(&object["metadata"]["name"]);
    let mut args = vec!["get", &kind, &name, "--output=json"];
    args.extend(namespace.iter().flat_map(|namespace| ["-n", namespace]));
    let mut object: Value = serde_json::from_str(&bed.kubectl(&args)).expect("JSON");
    object.as_object_mut().expect("an object").remove("status");
    let metadata = object["metadata"].as_object_mut().expect("metadata");
    metadata.retain(|key, _| ["name", "annotations"].contains(&key.as_str()));
    if let Some(annotations) = metadata.get_mut("annotations").and_then(Value::as_object_mut) {
        annotations.remove("deployment.kubernetes.io/revision");
    }
    object
}

#[test]
fn references_to_a_mapped_namespace_lead_to_its_target() {
    let bed = Bed::start();
    let kubectl = bed.plane.kubectl();
    let create = |object: &Value| kubectl.create(object);
    for name in ["shop", "other"] {
        bed.kubectl(&["create", "namespace", name]);
    }
    create(&routes()).expect("a definition");
    for named in objects() {
        eventually("the object", || create(&named.object).is_ok());
    }
    let target = |namespace: &str| if namespace == "shop" { "copy" } else { "other" }.to_owned();
    let before: BTreeMap<String, Value> = objects()
        .iter()
        .map(|named| {
            let namespace = named.object["metadata"]["namespace"].as_str();
            let mut moved = live(&bed, named, namespace);
            for place in named.places {
                let place = moved.pointer_mut(place).unwrap_or_else(|| panic!("{place}"));
                *place = place.as_str().expect("text").replace("shop", "copy").into();
            }
            (named.object["kind"].to_string(), moved)
        })
        .collect();
    assert_eq!(bed.local(&["backup", "all"]).code, 0);

    // What is there in the very state of the backup differs from what it is to become.
    let run = bed.local(&["restore", "left", "--from-backup", "all", "--namespace-mappings", "shop:copy"]);
    assert_eq!(run.code, 0, "{run:?}");
    let warnings = bed.results("left")["warnings"]["cluster"].to_string();
    for kind in ["ClusterRoleBinding", "ValidatingWebhookConfiguration", "FlowSchema", "IngressClass"] {
        assert!(warnings.contains(&format!("could not restore, {kind}:shop-")), "{kind}: {warnings}");
    }

    let update = ["--namespace-mappings", "shop:copy", "--existing-resource-policy", "update"];
    let run = bed.local(&[&["restore", "moved", "--from-backup", "all"][..], &update].concat());
    assert_eq!(run.code, 0, "{run:?}");
    let after: BTreeMap<String, Value> = objects()
        .iter()
        .map(|named| {
            let namespace = named.object["metadata"]["namespace"].as_str().map(target);
            (named.object["kind"].to_string(), live(&bed, named, namespace.as_deref()))
        })
        .collect();
    assert_eq!(after, before);
}
