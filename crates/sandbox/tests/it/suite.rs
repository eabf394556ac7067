//! Tests that every API server passes. Each test owns a namespace.

use crate::client::{Api, config_map, name, names, version};
use serde_json::{Value, json};

/// Code, reason and message of a refusal.
fn refusal((code, status): &(u16, Value)) -> (u16, &str, &str) {
    assert_eq!(status["kind"], "Status", "{status}");
    (*code, status["reason"].as_str().unwrap_or_default(), status["message"].as_str().unwrap_or_default())
}

pub(crate) async fn an_object_lives_and_dies(api: &Api) {
    let all = api.config_maps();
    let mut object = config_map("x");
    object["metadata"]["labels"] = json!({"app": "web"});
    object["metadata"]["uid"] = "mine".into();
    let made = api.post(&format!("{all}?fieldManager=me"), &object).await;
    let metadata = &made["metadata"];
    let owner = &metadata["managedFields"][0];
    let expected = json!({
        "apiVersion": "v1", "kind": "ConfigMap", "data": {"a": "1"},
        "metadata": {
            "name": "x", "namespace": api.namespace, "labels": {"app": "web"}, "uid": metadata["uid"],
            "resourceVersion": version(&made), "creationTimestamp": metadata["creationTimestamp"],
            "managedFields": [{"manager": "me", "operation": "Update", "apiVersion": "v1", "time": owner["time"],
                "fieldsType": "FieldsV1", "fieldsV1": {
                    "f:data": {".": {}, "f:a": {}}, "f:metadata": {"f:labels": {".": {}, "f:app": {}}}}}],
        },
    });
    assert_eq!(made, expected);
    assert_ne!(metadata["uid"], "mine");
    assert!(metadata["creationTimestamp"].as_str().unwrap().parse::<jiff::Timestamp>().is_ok());
    let one = format!("{all}/x");
    assert_eq!(api.get(&one).await, (200, made.clone()));

    let again = api.try_post(&all, &object).await;
    assert_eq!(refusal(&again), (409, "AlreadyExists", r#"configmaps "x" already exists"#));

    let (code, gone) = api.delete(&one).await;
    assert_eq!((code, &gone["status"]), (200, &json!("Success")));
    assert_eq!(gone["details"], json!({"name": "x", "kind": "configmaps", "uid": metadata["uid"]}));
    let missing = api.get(&one).await;
    assert_eq!(refusal(&missing), (404, "NotFound", r#"configmaps "x" not found"#));
    assert_eq!(missing.1["details"], json!({"name": "x", "kind": "configmaps"}));
}

pub(crate) async fn writes_conflict(api: &Api) {
    let all = api.config_maps();
    let one = format!("{all}/x");
    let first = api.post(&all, &config_map("x")).await;
    let mut changed = first.clone();
    changed["data"]["a"] = "2".into();
    let (code, second) = api.put(&one, &changed).await;
    assert_eq!((code, &second["data"]["a"]), (200, &json!("2")));
    assert_ne!(version(&first), version(&second));
    assert_eq!(first["metadata"]["uid"], second["metadata"]["uid"]);

    let stale = api.put(&one, &changed).await;
    let message = r#"Operation cannot be fulfilled on configmaps "x": the object has been modified; please apply your changes to the latest version and try again"#;
    assert_eq!(refusal(&stale), (409, "Conflict", message));
    let patch = json!({"metadata": {"resourceVersion": version(&first)}, "data": {"a": "3"}});
    assert_eq!(refusal(&api.patch(&one, "merge-patch", &patch).await).0, 409);

    // Without a revision a write is unconditional, and one that changes nothing makes no revision.
    let (code, third) = api.put(&one, &config_map("x")).await;
    assert_eq!((code, &third["data"]["a"]), (200, &json!("1")));
    let (_, same) = api.put(&one, &third).await;
    assert_eq!(version(&same), version(&third));

    let mut other = third.clone();
    other["metadata"]["uid"] = "other".into();
    assert_eq!(refusal(&api.put(&one, &other).await).0, 409);
    assert_eq!(refusal(&api.put(&format!("{all}/y"), &config_map("y")).await).0, 404);
}

pub(crate) async fn names_are_generated(api: &Api) {
    let all = api.config_maps();
    let object = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"generateName": "gen-"}});
    let (a, b) = (api.post(&all, &object).await, api.post(&all, &object).await);
    assert_ne!(name(&a), name(&b));
    assert!(name(&a).starts_with("gen-") && name(&a).len() == 9, "{a}");
    assert_eq!(a["metadata"]["generateName"], "gen-");
    let nameless = api.try_post(&all, &json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {}})).await;
    assert_eq!(refusal(&nameless).0, 422);
    assert_eq!(refusal(&nameless).1, "Invalid");
}

pub(crate) async fn a_namespace_must_exist(api: &Api) {
    let missing = "/api/v1/namespaces/protocol-none/configmaps";
    let refused = api.try_post(missing, &config_map("x")).await;
    assert_eq!(refusal(&refused), (404, "NotFound", r#"namespaces "protocol-none" not found"#));
    let (code, list) = api.get(missing).await;
    assert_eq!((code, names(&list)), (200, vec![]));
}

pub(crate) async fn namespaces_are_furnished_and_some_immortal(api: &Api) {
    for name in ["default", "kube-system", "kube-public", "kube-node-lease"] {
        assert_eq!(api.get(&format!("/api/v1/namespaces/{name}")).await.0, 200);
    }
    let (_, namespace) = api.get(&format!("/api/v1/namespaces/{}", api.namespace)).await;
    assert_eq!(namespace["metadata"]["labels"], json!({"kubernetes.io/metadata.name": api.namespace}));
    assert_eq!(
        (&namespace["spec"], &namespace["status"]),
        (&json!({"finalizers": ["kubernetes"]}), &json!({"phase": "Active"}))
    );
    let base = format!("/api/v1/namespaces/{}", api.namespace);
    api.until(&format!("{base}/serviceaccounts/default"), |code, _| code == 200).await;
    let authority = api.until(&format!("{base}/configmaps/kube-root-ca.crt"), |code, _| code == 200).await;
    assert!(authority["data"]["ca.crt"].as_str().unwrap().contains("BEGIN CERTIFICATE"));
    let refused = api.delete("/api/v1/namespaces/default").await;
    assert_eq!(
        refusal(&refused),
        (403, "Forbidden", r#"namespaces "default" is forbidden: this namespace may not be deleted"#)
    );
}

pub(crate) async fn a_terminating_namespace_takes_nothing_and_waits_for_finalizers(api: &Api) {
    let all = api.config_maps();
    let mut held = config_map("held");
    held["metadata"]["finalizers"] = json!(["example.com/hold"]);
    api.post(&all, &held).await;
    api.post(&all, &config_map("free")).await;
    let namespace = format!("/api/v1/namespaces/{}", api.namespace);
    let (code, _) = api.delete(&namespace).await;
    assert_eq!(code, 200);
    let (_, terminating) = api.get(&namespace).await;
    assert_eq!(terminating["status"]["phase"], "Terminating");
    assert!(terminating["metadata"]["deletionTimestamp"].is_string());

    let refused = api.try_post(&all, &config_map("late")).await;
    let ns = &api.namespace;
    let message = format!(
        r#"configmaps "late" is forbidden: unable to create new content in namespace {ns} because it is being terminated"#
    );
    assert_eq!(refusal(&refused), (403, "Forbidden", message.as_str()));
    assert_eq!(
        refused.1["details"]["causes"],
        json!([{"reason": "NamespaceTerminating", "message": format!("namespace {ns} is being terminated"), "field": "metadata.namespace"}])
    );
    api.gone(&format!("{all}/free")).await;
    api.until(&format!("{all}/held"), |_, o| o["metadata"]["deletionTimestamp"].is_string()).await;
    assert_eq!(api.get(&namespace).await.0, 200);
    api.patch(&format!("{all}/held"), "merge-patch", &json!({"metadata": {"finalizers": null}})).await;
    api.gone(&namespace).await;
}

pub(crate) async fn finalizers_hold_an_object(api: &Api) {
    let all = api.config_maps();
    let one = format!("{all}/x");
    let mut object = config_map("x");
    object["metadata"]["finalizers"] = json!(["example.com/a", "example.com/b"]);
    api.post(&all, &object).await;
    let (code, marked) = api.delete(&one).await;
    assert_eq!((code, name(&marked)), (200, "x".into()));
    assert!(marked["metadata"]["deletionTimestamp"].is_string());
    assert_eq!(marked["metadata"]["deletionGracePeriodSeconds"], 0);
    let (_, again) = api.delete(&one).await;
    assert_eq!(again["metadata"]["deletionTimestamp"], marked["metadata"]["deletionTimestamp"]);
    let finalizers = |list: Value| json!({"metadata": {"finalizers": list}});
    let more = finalizers(json!(["example.com/a", "example.com/b", "example.com/c"]));
    assert_eq!(refusal(&api.patch(&one, "merge-patch", &more).await).0, 422);
    let (code, less) = api.patch(&one, "merge-patch", &finalizers(json!(["example.com/a"]))).await;
    assert_eq!((code, &less["metadata"]["finalizers"]), (200, &json!(["example.com/a"])));
    assert_eq!(api.patch(&one, "merge-patch", &finalizers(json!([]))).await.0, 200);
    assert_eq!(api.get(&one).await.0, 404);
}

pub(crate) async fn pages_are_of_one_revision(api: &Api) {
    let all = api.config_maps();
    for n in ["a", "b", "c", "e"] {
        let mut object = config_map(n);
        object["metadata"]["labels"] = json!({"of": "pages"});
        api.post(&all, &object).await;
    }
    let selected = format!("{all}?labelSelector=of%3Dpages");
    let (_, first) = api.get(&format!("{selected}&limit=2")).await;
    assert_eq!((names(&first), &first["kind"]), (vec!["a".into(), "b".into()], &json!("ConfigMapList")));
    let mut late = config_map("d");
    late["metadata"]["labels"] = json!({"of": "pages"});
    api.post(&all, &late).await;
    api.delete(&format!("{all}/c")).await;
    let token = first["metadata"]["continue"].as_str().unwrap();
    let (_, second) = api.get(&format!("{selected}&limit=3&continue={token}")).await;
    assert_eq!(names(&second), ["c", "e"]);
    assert_eq!(version(&second), version(&first));
    assert_eq!(second["metadata"]["continue"], Value::Null);
    let (_, now) = api.get(&selected).await;
    assert_eq!(names(&now), ["a", "b", "d", "e"]);
    let exact = format!("{selected}&resourceVersion={}&resourceVersionMatch=Exact", version(&first));
    assert_eq!(names(&api.get(&exact).await.1), ["a", "b", "c", "e"]);
    assert_eq!(refusal(&api.get(&format!("{all}?limit=1&continue=nonsense")).await).0, 400);
    let (code, reason) = {
        let r = api.get(&format!("{all}?resourceVersion=99999999999")).await;
        (r.0, r.1["reason"].clone())
    };
    assert_eq!((code, reason), (504, json!("Timeout")));
}

pub(crate) async fn lists_have_the_order_of_namespace_slash_name(api: &Api) {
    let second = format!("{}-b", api.namespace);
    api.post("/api/v1/namespaces", &json!({"metadata": {"name": second}})).await;
    for (namespace, name) in [(&api.namespace, "y"), (&api.namespace, "x"), (&second, "z")] {
        let mut object = config_map(name);
        object["metadata"]["labels"] = json!({"of": api.namespace});
        api.post(&format!("/api/v1/namespaces/{namespace}/configmaps"), &object).await;
    }
    let everywhere = format!("/api/v1/configmaps?labelSelector=of%3D{}", api.namespace);
    assert_eq!(names(&api.get(&everywhere).await.1), ["z", "x", "y"], "a dash comes before a slash");
    let (_, first) = api.get(&format!("{everywhere}&limit=1")).await;
    let token = first["metadata"]["continue"].as_str().unwrap();
    let (_, rest) = api.get(&format!("{everywhere}&continue={token}")).await;
    assert_eq!([names(&first), names(&rest)].concat(), ["z", "x", "y"]);
    api.delete(&format!("/api/v1/namespaces/{second}")).await;
}

pub(crate) async fn selectors_select(api: &Api) {
    let all = api.config_maps();
    for (n, labels) in
        [("a", json!({"app": "web", "tier": "front"})), ("b", json!({"app": "web"})), ("c", json!({"app": "db"}))]
    {
        let mut object = config_map(n);
        object["metadata"]["labels"] = labels;
        api.post(&all, &object).await;
    }
    for (query, expected) in [
        ("labelSelector=app%3Dweb", vec!["a", "b"]),
        ("labelSelector=app%3D%3Dweb%2C%21tier", vec!["b"]),
        ("labelSelector=app+in+%28web%2Cdb%29%2Ctier%21%3Dfront", vec!["b", "c"]),
        ("labelSelector=app%2Capp+notin+%28web%29", vec!["c"]),
        ("labelSelector=tier", vec!["a"]),
        ("fieldSelector=metadata.name%3Db", vec!["b"]),
        ("labelSelector=app&fieldSelector=metadata.name%21%3Db", vec!["a", "c"]),
        ("fieldSelector=metadata.name%3Dnone", vec![]),
    ] {
        assert_eq!(names(&api.get(&format!("{all}?{query}")).await.1), expected, "{query}");
    }
    let everywhere =
        format!("/api/v1/configmaps?labelSelector=tier&fieldSelector=metadata.namespace%3D{}", api.namespace);
    assert_eq!(names(&api.get(&everywhere).await.1), ["a"]);
    assert_eq!(refusal(&api.get(&format!("{all}?labelSelector=a+b")).await).0, 400);
    assert_eq!(refusal(&api.get(&format!("{all}?fieldSelector=data.a%3Db")).await).0, 400);
}

pub(crate) async fn forms_of_answers(api: &Api) {
    let all = api.config_maps();
    let mut object = config_map("x");
    object["metadata"]["labels"] = json!({"of": "forms"});
    let made = api.post(&all, &object).await;
    let one = format!("{all}/x");
    let partial =
        json!({"kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1", "metadata": made["metadata"]});
    let as_metadata = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1,application/json";
    assert_eq!(api.get_as(&one, as_metadata).await, partial);
    let as_list = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1,application/json";
    let list = api.get_as(&format!("{all}?labelSelector=of%3Dforms"), as_list).await;
    assert_eq!(list["kind"], "PartialObjectMetadataList");
    assert_eq!((list["items"].as_array().unwrap().len(), &list["items"][0]["metadata"]), (1, &made["metadata"]));
    assert_eq!(list["items"][0]["data"], Value::Null);
    let table = api.get_as(&one, "application/json;as=Table;g=meta.k8s.io;v=v1,application/json").await;
    assert_eq!((&table["kind"], &table["apiVersion"]), (&json!("Table"), &json!("meta.k8s.io/v1")));
    assert_eq!(table["columnDefinitions"][0]["name"], "Name");
    assert_eq!((&table["rows"][0]["cells"][0], &table["rows"][0]["object"]), (&json!("x"), &partial));
    let refused = api.send("GET", &one, &[("accept", "text/plain")], "").await;
    assert_eq!(refused.0, 406);
}

pub(crate) async fn a_watch_tells_what_happens(api: &Api) {
    let all = api.config_maps();
    let before = api.get(&all).await.1;
    let from = version(&before);
    let path = |rest: &str| format!("{all}?watch=true&resourceVersion={from}{rest}");
    let mut everything = api.watch(&path("&fieldSelector=metadata.name%3Dx&timeoutSeconds=20")).await;
    let mut labelled = api.watch(&path("&labelSelector=on&timeoutSeconds=20")).await;
    let one = format!("{all}/x");
    api.post(&all, &config_map("x")).await;
    for labels in [json!({"on": "1"}), json!({"on": "2"}), json!({"on": null})] {
        api.patch(&one, "merge-patch", &json!({"metadata": {"labels": labels}})).await;
    }
    api.delete(&one).await;
    let told = |kinds: &[&str]| kinds.iter().map(|k| ((*k).to_owned(), "x".to_owned())).collect::<Vec<_>>();
    assert_eq!(everything.told(5).await, told(&["ADDED", "MODIFIED", "MODIFIED", "MODIFIED", "DELETED"]));
    assert_eq!(labelled.told(2).await, told(&["ADDED", "MODIFIED"]));
    let left = labelled.next().await.unwrap();
    assert_eq!((&left["type"], &left["object"]["metadata"]["labels"]), (&json!("DELETED"), &json!({"on": "2"})));

    let mut short = api.watch(&path("&allowWatchBookmarks=true&timeoutSeconds=10&labelSelector=none")).await;
    let mut bookmarks = 0;
    while let Some(event) = short.next().await {
        assert_eq!((&event["type"], &event["object"]["kind"]), (&json!("BOOKMARK"), &json!("ConfigMap")));
        assert!(version(&event["object"]).parse::<u64>().unwrap() >= version(&left["object"]).parse().unwrap());
        bookmarks += 1;
    }
    assert!(bookmarks >= 1);
}

pub(crate) async fn a_watch_begins_with_what_is_there(api: &Api) {
    let all = api.config_maps();
    for n in ["a", "b"] {
        let mut object = config_map(n);
        object["metadata"]["labels"] = json!({"of": "watch"});
        api.post(&all, &object).await;
    }
    let path = format!("{all}?watch=1&labelSelector=of%3Dwatch&timeoutSeconds=20");
    let mut told = api.watch(&path).await.told(2).await;
    told.sort();
    let added = |n: &str| ("ADDED".to_owned(), n.to_owned());
    assert_eq!(told, [added("a"), added("b")]);
    let listing = format!("{path}&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true");
    let mut events = api.watch(&listing).await;
    let mut told = events.told(2).await;
    told.sort();
    assert_eq!(told, [added("a"), added("b")]);
    let end = events.next().await.unwrap();
    assert_eq!(end["type"], "BOOKMARK");
    assert_eq!(end["object"]["metadata"]["annotations"], json!({"k8s.io/initial-events-end": "true"}));
}

pub(crate) async fn patches_are_applied_or_refused(api: &Api) {
    let all = api.config_maps();
    let one = format!("{all}/x");
    api.post(&all, &config_map("x")).await;
    let (code, merged) = api.patch(&one, "merge-patch", &json!({"data": {"a": null, "b": "2"}})).await;
    assert_eq!((code, &merged["data"]), (200, &json!({"b": "2"})));
    let operations =
        json!([{"op": "test", "path": "/data/b", "value": "2"}, {"op": "add", "path": "/data/c", "value": "3"}]);
    let (code, added) = api.patch(&one, "json-patch", &operations).await;
    assert_eq!((code, &added["data"]), (200, &json!({"b": "2", "c": "3"})));
    let failing = json!([{"op": "test", "path": "/data/b", "value": "9"}]);
    let refused = api.patch(&one, "json-patch", &failing).await;
    assert_eq!((refused.0, &refused.1["reason"]), (422, &json!("Invalid")));
    assert_eq!(refusal(&api.patch(&one, "json-patch", &json!({"no": "list"})).await).0, 400);
    let unknown = api.patch(&one, "other-patch", &json!({})).await;
    assert_eq!(refusal(&unknown).0, 415);
    assert_eq!(refusal(&api.patch(&one, "merge-patch", &json!({"metadata": {"name": "y"}})).await).0, 400);
    assert_eq!(refusal(&api.patch(&format!("{all}/none"), "merge-patch", &json!({})).await).0, 404);
    assert_eq!(api.get(&one).await.1["data"], added["data"]);
}

/// A definition of a type in a group of the test's own.
async fn define(api: &Api) -> String {
    let group = format!("{}.example.com", api.namespace);
    let schema = json!({"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": true}});
    let crd = json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": format!("widgets.{group}")},
        "spec": {"group": group, "scope": "Namespaced", "names": {"plural": "widgets", "kind": "Widget", "shortNames": ["wd"]},
            "versions": [
                {"name": "v1beta1", "served": true, "storage": false, "schema": schema, "subresources": {"status": {}}},
                {"name": "v1", "served": true, "storage": true, "schema": schema, "subresources": {"status": {}}}]},
    });
    api.post("/apis/apiextensions.k8s.io/v1/customresourcedefinitions", &crd).await;
    let path = format!("/apis/apiextensions.k8s.io/v1/customresourcedefinitions/widgets.{group}");
    let is_true = |crd: &Value, kind: &str| {
        crd["status"]["conditions"]
            .as_array()
            .is_some_and(|c| c.iter().any(|c| c["type"] == kind && c["status"] == "True"))
    };
    let made = api.until(&path, |_, crd| is_true(crd, "Established") && is_true(crd, "NamesAccepted")).await;
    assert_eq!(made["status"]["storedVersions"], json!(["v1"]));
    assert_eq!(
        made["status"]["acceptedNames"],
        json!({"plural": "widgets", "singular": "widget", "kind": "Widget", "listKind": "WidgetList", "shortNames": ["wd"]})
    );
    api.until(&format!("/apis/{group}/v1/namespaces/{}/widgets", api.namespace), |code, _| code == 200).await;
    group
}

fn widget(group: &str) -> Value {
    json!({"apiVersion": format!("{group}/v1"), "kind": "Widget", "metadata": {"name": "w"}, "spec": {"size": 1},
           "status": {"phase": "Made up"}})
}

pub(crate) async fn custom_types_come_and_go(api: &Api) {
    let group = define(api).await;
    let found = api
        .until(&format!("/apis/{group}"), |code, g| {
            code == 200 && g["versions"].as_array().is_some_and(|v| v.len() == 2)
        })
        .await;
    assert_eq!(found["preferredVersion"], json!({"groupVersion": format!("{group}/v1"), "version": "v1"}));
    let list = api.until(&format!("/apis/{group}/v1"), |code, _| code == 200).await;
    let resources: Vec<&Value> = list["resources"].as_array().unwrap().iter().map(|r| &r["name"]).collect();
    assert_eq!(resources, ["widgets", "widgets/status"]);
    let widgets = format!("/apis/{group}/v1/namespaces/{}/widgets", api.namespace);
    api.post(&widgets, &widget(&group)).await;
    let (_, other) = api.get(&format!("/apis/{group}/v1beta1/namespaces/{}/widgets/w", api.namespace)).await;
    assert_eq!((&other["apiVersion"], &other["spec"]), (&json!(format!("{group}/v1beta1")), &json!({"size": 1})));
    let (_, of_v1beta1) = api.get(&format!("/apis/{group}/v1beta1/widgets")).await;
    assert_eq!(
        (&of_v1beta1["kind"], &of_v1beta1["items"][0]["apiVersion"]),
        (&json!("WidgetList"), &other["apiVersion"])
    );
    let (code, _) =
        api.delete(&format!("/apis/apiextensions.k8s.io/v1/customresourcedefinitions/widgets.{group}")).await;
    assert_eq!(code, 200);
    api.gone(&widgets).await;
    api.gone(&format!("/apis/{group}")).await;
}

pub(crate) async fn status_is_a_world_of_its_own(api: &Api) {
    let group = define(api).await;
    let widgets = format!("/apis/{group}/v1/namespaces/{}/widgets", api.namespace);
    let made = api.post(&widgets, &widget(&group)).await;
    assert_eq!((&made["status"], &made["metadata"]["generation"]), (&Value::Null, &json!(1)));
    let one = format!("{widgets}/w");
    let mut next = made.clone();
    next["status"] = json!({"phase": "Ready"});
    next["spec"]["size"] = 2.into();
    let (code, reported) = api.put(&format!("{one}/status"), &next).await;
    assert_eq!((code, &reported["status"], &reported["spec"]), (200, &next["status"], &json!({"size": 1})));
    assert_eq!(reported["metadata"]["generation"], 1);
    let (_, changed) = api.patch(&one, "merge-patch", &json!({"spec": {"size": 3}, "status": {"phase": "Lost"}})).await;
    assert_eq!((&changed["status"], &changed["spec"]), (&next["status"], &json!({"size": 3})));
    assert_eq!(changed["metadata"]["generation"], 2);
    let (_, patched) = api.patch(&format!("{one}/status"), "merge-patch", &json!({"status": {"n": 1}})).await;
    assert_eq!(patched["status"], json!({"phase": "Ready", "n": 1}));
    assert_eq!(api.get(&format!("{one}/status")).await, (200, patched.clone()));
    let mut blind = patched.clone();
    blind["metadata"].as_object_mut().unwrap().remove("resourceVersion");
    assert_eq!(refusal(&api.put(&one, &blind).await).0, 422);
    assert_eq!(api.get(&format!("{}/x/status", api.config_maps())).await.0, 404);
    api.delete(&format!("/apis/apiextensions.k8s.io/v1/customresourcedefinitions/widgets.{group}")).await;
}

pub(crate) async fn a_dry_run_changes_nothing(api: &Api) {
    let all = api.config_maps();
    let (code, made) = api.try_post(&format!("{all}?dryRun=All"), &config_map("x")).await;
    assert_eq!((code, name(&made)), (201, "x".into()));
    assert!(made["metadata"]["uid"].is_string() && made["metadata"]["resourceVersion"].is_null());
    assert_eq!(api.get(&format!("{all}/x")).await.0, 404);
    let real = api.post(&all, &config_map("x")).await;
    let one = format!("{all}/x?dryRun=All");
    let (_, patched) = api.patch(&one, "merge-patch", &json!({"data": {"a": "2"}})).await;
    assert_eq!(patched["data"]["a"], "2");
    assert_eq!(api.delete(&one).await.0, 200);
    assert_eq!(api.get(&format!("{all}/x")).await, (200, real));
    assert_eq!(refusal(&api.try_post(&format!("{all}?dryRun=All"), &config_map("x")).await).0, 409);
    assert_eq!(api.try_post(&format!("{all}?dryRun=Some"), &config_map("y")).await.0 / 100, 4);
}

fn owned(child: &str, owner: &Value) -> Value {
    let mut object = config_map(child);
    object["metadata"]["ownerReferences"] =
        json!([{"apiVersion": "v1", "kind": "ConfigMap", "name": name(owner), "uid": owner["metadata"]["uid"]}]);
    object
}

pub(crate) async fn dependents_follow_their_owners(api: &Api) {
    let all = api.config_maps();
    let (one, two) = (api.post(&all, &config_map("one")).await, api.post(&all, &config_map("two")).await);
    let child = api.post(&all, &owned("child", &one)).await;
    api.post(&all, &owned("grandchild", &child)).await;
    let mut shared = owned("shared", &one);
    let second = owned("", &two)["metadata"]["ownerReferences"][0].clone();
    shared["metadata"]["ownerReferences"].as_array_mut().unwrap().push(second);
    api.post(&all, &shared).await;
    assert_eq!(api.delete(&format!("{all}/one")).await.0, 200);
    api.gone(&format!("{all}/child")).await;
    api.gone(&format!("{all}/grandchild")).await;
    assert_eq!(api.get(&format!("{all}/shared")).await.0, 200);
    assert_eq!(api.delete(&format!("{all}/two")).await.0, 200);
    api.gone(&format!("{all}/shared")).await;
    // An owner that never was is one that is gone.
    let stranger = json!({"metadata": {"name": "stranger", "uid": "1b4e28ba-2fa1-11d2-883f-0016d3cca427"}});
    api.post(&all, &owned("lost", &stranger)).await;
    api.gone(&format!("{all}/lost")).await;
}

pub(crate) async fn orphans_stay(api: &Api) {
    let all = api.config_maps();
    let owner = api.post(&all, &config_map("owner")).await;
    api.post(&all, &owned("child", &owner)).await;
    let options = json!({"kind": "DeleteOptions", "apiVersion": "v1", "propagationPolicy": "Orphan"});
    let headers = [("content-type", "application/json")];
    let (code, _) = api.send("DELETE", &format!("{all}/owner"), &headers, options.to_string()).await;
    assert_eq!(code, 200);
    api.gone(&format!("{all}/owner")).await;
    let child = api
        .until(&format!("{all}/child"), |_, o| {
            o["metadata"]["ownerReferences"].is_null() || o["metadata"]["ownerReferences"] == json!([])
        })
        .await;
    assert_eq!(name(&child), "child");
}

pub(crate) async fn deletion_checks_preconditions(api: &Api) {
    let all = api.config_maps();
    let made = api.post(&all, &config_map("x")).await;
    let headers = [("content-type", "application/json")];
    for wrong in [json!({"uid": "other"}), json!({"resourceVersion": "1"})] {
        let options = json!({"preconditions": wrong});
        let refused = api.send("DELETE", &format!("{all}/x"), &headers, options.to_string()).await;
        assert_eq!((refusal(&refused).0, refusal(&refused).1), (409, "Conflict"));
    }
    let options = json!({"preconditions": {"uid": made["metadata"]["uid"], "resourceVersion": version(&made)}});
    assert_eq!(api.send("DELETE", &format!("{all}/x"), &headers, options.to_string()).await.0, 200);
    assert_eq!(refusal(&api.delete(&format!("{all}/x")).await).0, 404);
}

pub(crate) async fn collections_are_deleted(api: &Api) {
    let all = api.config_maps();
    for (n, of) in [("a", "one"), ("b", "one"), ("c", "two")] {
        let mut object = config_map(n);
        object["metadata"]["labels"] = json!({"of": of});
        api.post(&all, &object).await;
    }
    assert_eq!(api.delete(&format!("{all}?labelSelector=of%3Done")).await.0, 200);
    assert_eq!(names(&api.get(&format!("{all}?labelSelector=of")).await.1), ["c"]);
}

pub(crate) async fn requests_that_make_no_sense_are_refused(api: &Api) {
    let all = api.config_maps();
    let with = |field: &str, value: &str| {
        let mut object = config_map("x");
        match field {
            "kind" | "apiVersion" => object[field] = value.into(),
            _ => object["metadata"][field] = value.into(),
        }
        object
    };
    for (object, code) in [
        (with("kind", "Secret"), 400),
        (with("apiVersion", "v2"), 400),
        (with("namespace", "default"), 400),
        (with("name", "a/b"), 422),
    ] {
        assert_eq!(refusal(&api.try_post(&all, &object).await).0, code, "{object}");
    }
    api.post(&all, &config_map("x")).await;
    assert_eq!(refusal(&api.put(&format!("{all}/x"), &config_map("y")).await).0, 400);
    assert_eq!(refusal(&api.try_post("/api/v1/configmaps", &config_map("x")).await).0, 405);
    assert_eq!(refusal(&api.try_post(&format!("{all}/x"), &config_map("x")).await).0, 405);
    assert_eq!(refusal(&api.delete("/api/v1/namespaces").await).0, 405);
    assert_eq!(refusal(&api.send("POST", &all, &[("content-type", "application/json")], "{").await).0, 400);
    assert_eq!(refusal(&api.send("POST", &all, &[("content-type", "text/csv")], "a,b").await).0, 415);
    for path in ["/api/v1/nothing", "/api/v2/pods", "/apis/none.example.com/v1/x", "/api/v1/pods/x"] {
        assert_eq!(api.get(path).await.0, 404, "{path}");
    }
}

pub(crate) async fn reviews_are_answered(api: &Api) {
    let access = json!({"apiVersion": "authorization.k8s.io/v1", "kind": "SelfSubjectAccessReview",
        "spec": {"resourceAttributes": {"verb": "create", "resource": "pods", "namespace": "default"}}});
    let answer = api.post("/apis/authorization.k8s.io/v1/selfsubjectaccessreviews", &access).await;
    assert_eq!((&answer["status"]["allowed"], &answer["spec"]), (&json!(true), &access["spec"]));
    let rules = json!({"apiVersion": "authorization.k8s.io/v1", "kind": "SelfSubjectRulesReview", "spec": {"namespace": "default"}});
    let answer = api.post("/apis/authorization.k8s.io/v1/selfsubjectrulesreviews", &rules).await;
    let all = json!({"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"]});
    assert!(answer["status"]["resourceRules"].as_array().unwrap().contains(&all), "{answer}");
}

pub(crate) async fn documents_are_served(api: &Api) {
    for path in ["/healthz", "/livez", "/readyz"] {
        assert_eq!(api.get(path).await, (200, json!("ok")));
    }
    let (_, running) = api.get("/version").await;
    assert_eq!(running["major"], "1");
    assert!(running["gitVersion"].as_str().unwrap().starts_with("v1."));
    assert_eq!(api.get("/api").await.1["versions"], json!(["v1"]));
    let apps = json!({"name": "apps", "versions": [{"groupVersion": "apps/v1", "version": "v1"}],
                      "preferredVersion": {"groupVersion": "apps/v1", "version": "v1"}});
    let (_, groups) = api.get("/apis").await;
    assert!(groups["groups"].as_array().unwrap().contains(&apps));
    let aggregated = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList,application/json";
    let discovery = api.get_as("/apis", aggregated).await;
    assert_eq!(
        (&discovery["kind"], &discovery["apiVersion"]),
        (&json!("APIGroupDiscoveryList"), &json!("apidiscovery.k8s.io/v2"))
    );
    let (_, index) = api.get("/openapi/v3").await;
    let url = index["paths"]["api/v1"]["serverRelativeURL"].as_str().unwrap();
    let document = api.get_as(url, "application/json").await;
    let patch = &document["paths"]["/api/v1/namespaces/{namespace}/configmaps/{name}"]["patch"];
    assert_eq!(patch["x-kubernetes-group-version-kind"], json!({"group": "", "version": "v1", "kind": "ConfigMap"}));
    assert!(patch["parameters"].as_array().unwrap().iter().any(|p| p["name"] == "fieldValidation"));
}

/// kubectl asks for it, in protocol buffers alone, before it sends a `kind: List`.
pub(crate) async fn open_api_v2_is_answered_in_both_forms(api: &Api) {
    let document = api.get_as("/openapi/v2", "application/json").await;
    assert_eq!((&document["swagger"], &document["info"]["title"]), (&json!("2.0"), &json!("Kubernetes")));
    for name in ["v2@v1.0", "v2.v1.0"] {
        let accept = format!("application/com.github.proto-openapi.spec.{name}+protobuf");
        let (code, document) = api.send("GET", "/openapi/v2", &[("accept", &accept)], "").await;
        let text = document.as_str().unwrap_or_default();
        assert!(code == 200 && text.starts_with("\n\u{3}2.0\u{12}"), "{name}: {code}");
    }
    let (code, refused) = api.send("GET", "/openapi/v2", &[("accept", "application/yaml+nothing")], "").await;
    assert_eq!(code, 406, "{refused}");
}
