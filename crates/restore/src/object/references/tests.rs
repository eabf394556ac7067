//! Mapping of every field of the table, in whole objects.

use super::*;
use serde_json::json;

fn mapping() -> BTreeMap<String, String> {
    let pairs = [("shop", "copy"), ("copy", "third"), ("", "empty")];
    pairs.map(|(source, target)| (source.to_owned(), target.to_owned())).into()
}

/// The value with `@` for a namespace that follows the mapping, as it is in this one.
fn at(namespace: &str, value: &Value) -> Value {
    serde_json::from_str(&value.to_string().replace('@', namespace)).unwrap()
}

/// A selector for namespaces: `@` follows, `shop` stays.
fn selector() -> Value {
    json!({"matchLabels": {"kubernetes.io/metadata.name": "@", "tenant": "shop"}, "matchExpressions": [
        {"key": "kubernetes.io/metadata.name", "operator": "In", "values": ["@", "other"]},
        {"key": "kubernetes.io/metadata.name", "operator": "NotIn", "values": ["kube-system", "@"]},
        {"key": "kubernetes.io/metadata.name", "operator": "Exists"},
        {"key": "tenant", "operator": "In", "values": ["shop"]}, "odd"]})
}

fn named() -> Value {
    json!({"name": "shop", "namespace": "@"})
}

/// Metadata of an object that lies in no namespace; the annotations name certificates.
fn certified() -> Value {
    json!({"name": "shop", "annotations": {"cert-manager.io/inject-ca-from": "@/shop", "shop/x": "shop/y",
        "cert-manager.io/inject-ca-from-secret": "@/tls"}})
}

fn pod_spec() -> Value {
    let term = json!({"topologyKey": "shop", "labelSelector": {"matchLabels": {"kubernetes.io/metadata.name": "shop"}},
        "namespaces": ["@", "other"], "namespaceSelector": selector()});
    let terms = json!({"requiredDuringSchedulingIgnoredDuringExecution": [term],
        "preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 1, "podAffinityTerm": term}]});
    json!({"serviceAccountName": "shop", "affinity": {"podAffinity": terms, "podAntiAffinity": terms, "nodeAffinity": {}},
        "volumes": [{"name": "shop", "ephemeral": {"volumeClaimTemplate": {"spec": {"dataSourceRef": named()}}}}, {"name": "x"}]})
}

/// Objects of all types of the table, with group and name of the type.
#[rustfmt::skip]
fn samples() -> Vec<(&'static str, &'static str, Value)> {
    let called = json!({"name": "web", "clientConfig": {"service": {"name": "shop", "namespace": "@", "path": "/shop"}},
        "namespaceSelector": selector(), "objectSelector": {"matchLabels": {"kubernetes.io/metadata.name": "shop"}}});
    let webhooks = json!({"metadata": certified(), "webhooks": [called, {"clientConfig": {"url": "https://web.shop.svc"}}]});
    let accounts = json!([{"kind": "Group", "name": "system:serviceaccounts:@"}, {"kind": "User", "name": "system:serviceaccount:@:shop"},
        {"kind": "Group", "name": "system:serviceaccounts"}, {"kind": "User", "name": "shop"}, {"kind": "Group", "name": "shop"},
        {"kind": "User", "name": "system:serviceaccount:other:shop"}]);
    let bindings = json!({"metadata": {"name": "shop"}, "roleRef": {"name": "system:serviceaccounts:shop"}, "subjects": accounts});
    let matched = json!({"namespaceSelector": selector(), "resourceRules": [{"resourceNames": ["shop"]}]});
    let admission = json!({"metadata": {"name": "shop"}, "spec": {"matchConstraints": matched, "paramKind": {"kind": "shop"}}});
    let admission_binding = json!({"metadata": {"name": "shop"}, "spec": {"policyName": "shop", "matchResources": matched, "paramRef": named()}});
    let peers = json!([{"namespaceSelector": selector(), "podSelector": {"matchLabels": {"kubernetes.io/metadata.name": "shop"}}}, {"ipBlock": {}}]);
    let policy_peers = json!([{"namespaces": selector()}, {"pods": {"namespaceSelector": selector(), "podSelector": {}}}]);
    let cluster_policy = json!({"metadata": {"name": "shop"}, "spec": {"subject": {"namespaces": selector(), "pods": {"namespaceSelector": selector()}},
        "ingress": [{"name": "shop", "from": policy_peers}], "egress": [{"name": "shop", "to": policy_peers}]}});
    let mirror = json!([{"type": "RequestMirror", "requestMirror": {"backendRef": named()}}, {"type": "CORS"}]);
    let route = json!({"metadata": {"name": "shop", "namespace": "shop"}, "spec": {"hostnames": ["shop"], "parentRefs": [named(), {"name": "own"}],
        "rules": [{"filters": mirror, "backendRefs": [{"name": "shop", "namespace": "@", "port": 80, "filters": mirror}]}]}});
    let listeners = json!([{"name": "shop", "tls": {"certificateRefs": [named()], "frontendValidation": {"caCertificateRefs": [named()]}},
        "allowedRoutes": {"namespaces": {"from": "Selector", "selector": selector()}}}]);
    let checked = json!({"validation": {"caCertificateRefs": [named()]}});
    let gateway = json!({"metadata": {"name": "shop", "namespace": "shop"}, "spec": {"listeners": listeners, "backendTLS": {"clientCertificateRef": named()},
        "tls": {"backend": {"clientCertificateRef": named()}, "frontend": {"default": checked, "perPort": [{"port": 1, "tls": checked}]}},
        "allowedListeners": {"namespaces": {"selector": selector()}}}});
    let listener = json!({"name": "shop", "tls": {"certificateRefs": [named()]}, "allowedRoutes": {"namespaces": {"selector": selector()}}});
    let listener_set = json!({"metadata": {"name": "shop", "namespace": "shop"}, "spec": {"parentRef": named(), "listeners": [listener]}});
    let secret = json!({"secretRef": named()});
    let volume = json!({"metadata": {"name": "shop"}, "spec": {"claimRef": {"name": "shop", "namespace": "shop"},
        "csi": {"controllerPublishSecretRef": named(), "nodeStageSecretRef": named(), "nodePublishSecretRef": named(),
            "controllerExpandSecretRef": named(), "nodeExpandSecretRef": named(), "volumeHandle": "shop"},
        "azureFile": {"secretNamespace": "@"}, "glusterfs": {"endpointsNamespace": "@"}, "cephfs": secret, "flexVolume": secret,
        "iscsi": secret, "rbd": secret, "scaleIO": secret, "storageos": secret}});
    let secrets = |of: &[&str]| {
        let key = |what| format!("csi.storage.k8s.io/{what}-secret");
        let names = of.iter().map(|what| (format!("{}-name", key(what)), "shop".into()));
        let namespaces = of.iter().map(|what| (format!("{}-namespace", key(what)), "@".into()));
        json!({"metadata": {"name": "shop"}, "parameters": names.chain(namespaces).collect::<serde_json::Map<_, _>>()})
    };
    let class = secrets(&["provisioner", "controller-publish", "node-stage", "node-publish", "controller-expand", "node-expand"]);
    let snapshot_class = secrets(&["snapshotter", "snapshotter-list", "group-snapshotter"]);
    let workload = json!({"metadata": {"name": "shop", "namespace": "shop"}, "spec": {"template": {"spec": pod_spec()}}});
    let mut stateful = workload.clone();
    stateful["spec"]["volumeClaimTemplates"] = json!([{"metadata": {"name": "shop"}, "spec": {"dataSourceRef": named()}}]);
    vec![
        (RBAC, "rolebindings", bindings.clone()),
        (RBAC, "clusterrolebindings", bindings),
        ("flowcontrol.apiserver.k8s.io", "flowschemas", json!({"metadata": {"name": "shop"}, "spec": {"rules": [{"subjects": [
            {"kind": "ServiceAccount", "serviceAccount": named()}, {"kind": "Group", "group": {"name": "system:serviceaccounts:@"}},
            {"kind": "User", "user": {"name": "system:serviceaccount:@:shop"}}, {"kind": "User", "user": {"name": "shop"}}],
            "resourceRules": [{"namespaces": ["shop"]}]}]}})),
        (ADMISSION, "mutatingwebhookconfigurations", webhooks.clone()),
        (ADMISSION, "validatingwebhookconfigurations", webhooks),
        ("apiextensions.k8s.io", "customresourcedefinitions", json!({"metadata": certified(), "spec": {"group": "shop", "conversion": {
            "webhook": {"clientConfig": {"service": named()}}, "webhookClientConfig": {"service": named()}}}})),
        ("apiregistration.k8s.io", "apiservices", json!({"metadata": certified(), "spec": {"group": "shop", "service": named()}})),
        (ADMISSION, "validatingadmissionpolicies", admission.clone()),
        (ADMISSION, "mutatingadmissionpolicies", admission),
        (ADMISSION, "validatingadmissionpolicybindings", admission_binding.clone()),
        (ADMISSION, "mutatingadmissionpolicybindings", admission_binding),
        ("networking.k8s.io", "networkpolicies", json!({"metadata": {"name": "shop", "namespace": "shop"},
            "spec": {"podSelector": {"matchLabels": {"kubernetes.io/metadata.name": "shop"}}, "ingress": [{"from": peers}, {}], "egress": [{"to": peers}]}})),
        (POLICY, "adminnetworkpolicies", cluster_policy.clone()),
        (POLICY, "baselineadminnetworkpolicies", cluster_policy.clone()),
        (POLICY, "clusternetworkpolicies", cluster_policy),
        ("", "services", json!({"metadata": {"name": "shop", "namespace": "shop"}, "spec": {"type": "ExternalName", "externalName": "shop.@.svc.cluster.local"}})),
        ("networking.k8s.io", "ingressclasses", json!({"metadata": {"name": "shop"}, "spec": {"controller": "shop", "parameters": named()}})),
        (GATEWAY, "httproutes", route.clone()),
        (GATEWAY, "grpcroutes", route.clone()),
        (GATEWAY, "tlsroutes", route.clone()),
        (GATEWAY, "tcproutes", route.clone()),
        (GATEWAY, "udproutes", route),
        (GATEWAY, "gateways", gateway),
        (GATEWAY, "listenersets", listener_set.clone()),
        ("gateway.networking.x-k8s.io", "xlistenersets", listener_set),
        (GATEWAY, "gatewayclasses", json!({"metadata": {"name": "shop"}, "spec": {"controllerName": "shop", "parametersRef": named()}})),
        (GATEWAY, "referencegrants", json!({"metadata": {"name": "shop", "namespace": "shop"},
            "spec": {"from": [{"group": "shop", "kind": "x", "namespace": "@"}, {"namespace": "other"}], "to": [{"name": "shop"}]}})),
        ("", "persistentvolumes", volume),
        ("", "persistentvolumeclaims", json!({"metadata": {"name": "shop", "namespace": "shop"}, "spec": {"volumeName": "shop", "dataSourceRef": named()}})),
        ("storage.k8s.io", "storageclasses", class),
        ("snapshot.storage.k8s.io", "volumesnapshotclasses", snapshot_class.clone()),
        ("groupsnapshot.storage.k8s.io", "volumegroupsnapshotclasses", snapshot_class),
        ("snapshot.storage.k8s.io", "volumesnapshotcontents", json!({"metadata": {"name": "shop"}, "spec": {"volumeSnapshotRef": named()}})),
        ("groupsnapshot.storage.k8s.io", "volumegroupsnapshotcontents", json!({"metadata": {"name": "shop"}, "spec": {"volumeGroupSnapshotRef": named()}})),
        ("", "pods", json!({"metadata": {"name": "shop", "namespace": "shop"}, "spec": pod_spec()})),
        ("", "podtemplates", json!({"metadata": {"name": "shop", "namespace": "shop"}, "template": {"spec": pod_spec()}})),
        ("", "replicationcontrollers", workload.clone()),
        ("apps", "deployments", workload.clone()),
        ("apps", "daemonsets", workload.clone()),
        ("apps", "replicasets", workload.clone()),
        ("apps", "statefulsets", stateful),
        ("batch", "jobs", workload),
        ("batch", "cronjobs", json!({"metadata": {"name": "shop", "namespace": "shop"}, "spec": {"jobTemplate": {"spec": {"template": {"spec": pod_spec()}}}}})),
    ]
}

const ADMISSION: &str = "admissionregistration.k8s.io";
const GATEWAY: &str = "gateway.networking.k8s.io";
const POLICY: &str = "policy.networking.k8s.io";
const RBAC: &str = "rbac.authorization.k8s.io";

#[test]
fn every_reference_follows_and_nothing_else() {
    for (group, name, sample) in samples() {
        let resource = GroupResource::new(group, name);
        let follow = |mapping: &BTreeMap<String, String>| {
            let mut object = at("shop", &sample);
            follow(&resource, &mut object, mapping);
            object
        };
        assert!(is_mapped(&resource), "{resource}");
        assert_eq!(follow(&mapping()), at("copy", &sample), "{resource}");
        assert_eq!(follow(&BTreeMap::new()), at("shop", &sample), "{resource}");
    }
}

#[test]
fn every_path_of_the_table_has_a_sample_that_only_it_changes() {
    let samples = samples();
    for row in TABLE {
        for (group, name) in row.types {
            let (.., sample) = samples.iter().find(|(g, n, _)| g == group && n == name).expect(name);
            let before = at("shop", sample);
            for path in row.paths {
                let mut object = before.clone();
                at_each(&mut object, &format!("{}{path}", row.within), &mut |value| row.what.follow(value, &mapping()));
                assert_ne!(object, before, "{name} {}{path}", row.within);
            }
        }
    }
}

#[test]
fn other_types_are_left_alone() {
    let mut all =
        json!({"metadata": certified(), "spec": pod_spec(), "subjects": [{"name": "system:serviceaccounts:shop"}]});
    all["spec"]["externalName"] = "a.shop.svc".into();
    let all = at("shop", &all);
    // A budget names no namespace at all; the others are of no type that the table has.
    for (group, name) in
        [("policy", "poddisruptionbudgets"), ("example.com", "pods"), ("", "endpoints"), ("apps", "services")]
    {
        let resource = GroupResource::new(group, name);
        let mut object = all.clone();
        follow(&resource, &mut object, &mapping());
        assert_eq!((object, is_mapped(&resource)), (all.clone(), false), "{resource}");
    }
}

#[test]
fn texts_follow_by_their_form() {
    for (what, before, after) in [
        (ReferenceForm::Name, json!("shop"), json!("copy")),
        (ReferenceForm::Name, json!("copy"), json!("third")),
        (ReferenceForm::Name, json!("shopping"), json!("shopping")),
        (ReferenceForm::Name, json!(""), json!("")),
        (ReferenceForm::Name, json!(7), json!(7)),
        (ReferenceForm::NamespacedName, json!("shop/a"), json!("copy/a")),
        (ReferenceForm::NamespacedName, json!("shop/a/shop"), json!("copy/a/shop")),
        (ReferenceForm::NamespacedName, json!("shop"), json!("shop")),
        (ReferenceForm::NamespacedName, json!("a/shop"), json!("a/shop")),
        (ReferenceForm::Account, json!("system:serviceaccount:shop:a"), json!("system:serviceaccount:copy:a")),
        (ReferenceForm::Account, json!("system:serviceaccount:shop"), json!("system:serviceaccount:shop")),
        (ReferenceForm::Account, json!("system:serviceaccounts:shop"), json!("system:serviceaccounts:copy")),
        (ReferenceForm::Account, json!("system:masters"), json!("system:masters")),
        (ReferenceForm::Host, json!("web.shop.svc"), json!("web.copy.svc")),
        (ReferenceForm::Host, json!("web.shop.svc.cluster.local."), json!("web.copy.svc.cluster.local.")),
        (ReferenceForm::Host, json!("db-0.db.shop.svc.k8s.example"), json!("db-0.db.copy.svc.k8s.example")),
        (ReferenceForm::Host, json!("svc.shop.svc.cluster.local"), json!("svc.copy.svc.cluster.local")),
        (ReferenceForm::Host, json!("shop.svc"), json!("shop.svc")),
        (ReferenceForm::Host, json!("web.shop.example.org"), json!("web.shop.example.org")),
        (ReferenceForm::Host, json!("shop"), json!("shop")),
        (ReferenceForm::Selector, json!("shop"), json!("shop")),
        (
            ReferenceForm::Selector,
            json!({"matchLabels": ["x"], "matchExpressions": {}}),
            json!({"matchLabels": ["x"], "matchExpressions": {}}),
        ),
    ] {
        let mut value = before.clone();
        what.follow(&mut value, &mapping());
        assert_eq!(value, after, "{what:?} {before}");
    }
}
