//! A client that says exactly what goes over the wire.

use http::{Method, Request};
use http_body_util::BodyExt;
use kube::client::Body;
use kube::config::{KubeConfigOptions, Kubeconfig};
use serde_json::{Value, json};
use std::time::Duration;
use tokio::time::{Instant, sleep, timeout};

const PATIENCE: Duration = Duration::from_secs(30);

pub(crate) struct Api {
    client: kube::Client,
    /// A namespace of the test's own.
    pub(crate) namespace: String,
}

impl Api {
    /// Connects, and makes a namespace.
    pub(crate) async fn connect(kubeconfig: &str) -> Self {
        let mut api = Self::open_only(kubeconfig).await;
        let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"generateName": "protocol-"}});
        api.namespace = name(&api.post("/api/v1/namespaces", &namespace).await);
        api
    }

    /// Connects, and writes nothing.
    pub(crate) async fn open_only(kubeconfig: &str) -> Self {
        let kubeconfig = Kubeconfig::from_yaml(kubeconfig).unwrap();
        let mut config = kube::Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await.unwrap();
        // Refusals are what is tested: none is tried again.
        config.default_retry = false;
        let client = kube::Client::try_from(config).unwrap();
        Self { client, namespace: String::new() }
    }

    /// Code and body of the answer.
    pub(crate) async fn send(
        &self,
        method: &str,
        path: &str,
        headers: &[(&str, &str)],
        body: impl Into<Vec<u8>>,
    ) -> (u16, Value) {
        let response = timeout(PATIENCE, self.open(method, path, headers, body.into())).await.unwrap();
        let code = response.status().as_u16();
        let body = timeout(PATIENCE, response.into_body().collect()).await.unwrap().unwrap().to_bytes();
        (code, serde_json::from_slice(&body).unwrap_or_else(|_| String::from_utf8_lossy(&body).into()))
    }

    async fn open(&self, method: &str, path: &str, headers: &[(&str, &str)], body: Vec<u8>) -> http::Response<Body> {
        let mut request = Request::builder().method(Method::from_bytes(method.as_bytes()).unwrap()).uri(path);
        for (key, value) in headers {
            request = request.header(*key, *value);
        }
        self.client.send(request.body(Body::from(body)).unwrap()).await.unwrap()
    }

    pub(crate) async fn get(&self, path: &str) -> (u16, Value) {
        self.send("GET", path, &[], "").await
    }

    pub(crate) async fn get_as(&self, path: &str, accept: &str) -> Value {
        let (code, answer) = self.send("GET", path, &[("accept", accept)], "").await;
        assert_eq!(code, 200, "{path} {answer}");
        answer
    }

    pub(crate) async fn try_post(&self, path: &str, object: &Value) -> (u16, Value) {
        self.send("POST", path, &[("content-type", "application/json")], object.to_string()).await
    }

    pub(crate) async fn post(&self, path: &str, object: &Value) -> Value {
        let (code, answer) = self.try_post(path, object).await;
        assert_eq!(code, 201, "{path} {answer}");
        answer
    }

    pub(crate) async fn put(&self, path: &str, object: &Value) -> (u16, Value) {
        self.send("PUT", path, &[("content-type", "application/json")], object.to_string()).await
    }

    pub(crate) async fn patch(&self, path: &str, kind: &str, patch: &Value) -> (u16, Value) {
        let content_type = format!("application/{kind}+json");
        self.send("PATCH", path, &[("content-type", &content_type)], patch.to_string()).await
    }

    pub(crate) async fn delete(&self, path: &str) -> (u16, Value) {
        self.send("DELETE", path, &[], "").await
    }

    /// Waits until the object is gone.
    pub(crate) async fn gone(&self, path: &str) {
        self.until(path, |code, _| code == 404).await;
    }

    /// Waits until the answer is as it should be.
    pub(crate) async fn until(&self, path: &str, fits: impl Fn(u16, &Value) -> bool) -> Value {
        let end = Instant::now() + PATIENCE;
        loop {
            let (code, answer) = self.get(path).await;
            if fits(code, &answer) {
                return answer;
            }
            assert!(Instant::now() < end, "still {code} {answer}");
            sleep(Duration::from_millis(100)).await;
        }
    }

    /// Returns true if the connection ends before the response does.
    pub(crate) async fn is_cut_off(&self, path: &str) -> bool {
        let request = Request::get(path).body(Body::empty()).unwrap();
        match timeout(PATIENCE, self.client.send(request)).await.unwrap() {
            Ok(response) => timeout(PATIENCE, response.into_body().collect()).await.unwrap().is_err(),
            Err(_) => true,
        }
    }

    pub(crate) async fn watch(&self, path: &str) -> Events {
        self.watch_as(path, "application/json").await
    }

    pub(crate) async fn watch_as(&self, path: &str, accept: &str) -> Events {
        let response = timeout(PATIENCE, self.open("GET", path, &[("accept", accept)], Vec::new())).await.unwrap();
        assert_eq!(response.status(), 200, "{path}");
        Events { body: response.into_body(), buffer: Vec::new() }
    }

    /// The path of ConfigMaps in the test's namespace.
    pub(crate) fn config_maps(&self) -> String {
        format!("/api/v1/namespaces/{}/configmaps", self.namespace)
    }
}

/// The events of a watch.
pub(crate) struct Events {
    body: Body,
    buffer: Vec<u8>,
}

impl Events {
    /// The next event; `None` at the end.
    pub(crate) async fn next(&mut self) -> Option<Value> {
        loop {
            if let Some(end) = self.buffer.iter().position(|b| *b == b'\n') {
                let line: Vec<u8> = self.buffer.drain(..=end).collect();
                return Some(serde_json::from_slice(&line).unwrap());
            }
            let frame = timeout(PATIENCE, self.body.frame()).await.expect("the watch is silent")?;
            if let Ok(data) = frame.unwrap().into_data() {
                self.buffer.extend_from_slice(&data);
            }
        }
    }

    /// Type and name of the next events.
    pub(crate) async fn told(&mut self, count: usize) -> Vec<(String, String)> {
        let mut told = Vec::new();
        for _ in 0..count {
            let event = self.next().await.expect("another event");
            told.push((event["type"].as_str().unwrap().to_owned(), name(&event["object"])));
        }
        told
    }
}

pub(crate) fn name(object: &Value) -> String {
    object["metadata"]["name"].as_str().unwrap_or_default().to_owned()
}

pub(crate) fn names(list: &Value) -> Vec<String> {
    list["items"].as_array().unwrap_or_else(|| panic!("{list}")).iter().map(name).collect()
}

pub(crate) fn version(object: &Value) -> &str {
    object["metadata"]["resourceVersion"].as_str().unwrap_or_else(|| panic!("{object}"))
}

pub(crate) fn config_map(name: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": {"a": "1"}})
}
