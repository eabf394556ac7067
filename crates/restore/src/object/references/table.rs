//! Table of the fields in which objects refer to namespaces. `docs/namespace-mapping.md` lists them for users.

/// A place, or several alike, where objects of some types name namespaces.
pub(super) struct Reference {
    /// Group and name of each.
    pub(super) types: &'static [(&'static str, &'static str)],
    /// The path of the part of the object that holds it, with `*` for every element of a list; empty for the object itself.
    pub(super) within: &'static str,
    /// Paths from there.
    pub(super) paths: &'static [&'static str],
    /// Kind of the values at the end of each path.
    pub(super) what: ReferenceForm,
}

/// The form in which a value names a namespace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ReferenceForm {
    /// Its name.
    Name,
    /// A namespace and, after a slash, a name in it.
    NamespacedName,
    /// A label selector for namespaces.
    Selector,
    /// A user or a group, which may be a service account or all of a namespace.
    Account,
    /// A host name, which may be that of a service.
    Host,
}

const ADMISSION: &str = "admissionregistration.k8s.io";
const GATEWAY: &str = "gateway.networking.k8s.io";
const GATEWAY_X: &str = "gateway.networking.x-k8s.io";
const POLICY: &str = "policy.networking.k8s.io";
const RBAC: &str = "rbac.authorization.k8s.io";

const WEBHOOKS: [(&str, &str); 2] =
    [(ADMISSION, "mutatingwebhookconfigurations"), (ADMISSION, "validatingwebhookconfigurations")];
const DEFINITIONS: (&str, &str) = ("apiextensions.k8s.io", "customresourcedefinitions");
const API_SERVICES: (&str, &str) = ("apiregistration.k8s.io", "apiservices");
const ADMISSION_BINDINGS: [(&str, &str); 2] =
    [(ADMISSION, "validatingadmissionpolicybindings"), (ADMISSION, "mutatingadmissionpolicybindings")];
const FLOW_SCHEMAS: [(&str, &str); 1] = [("flowcontrol.apiserver.k8s.io", "flowschemas")];
const GATEWAYS: [(&str, &str); 1] = [(GATEWAY, "gateways")];
const ROUTES: [(&str, &str); 5] = [
    (GATEWAY, "httproutes"),
    (GATEWAY, "grpcroutes"),
    (GATEWAY, "tlsroutes"),
    (GATEWAY, "tcproutes"),
    (GATEWAY, "udproutes"),
];
const CLUSTER_POLICIES: [(&str, &str); 3] =
    [(POLICY, "adminnetworkpolicies"), (POLICY, "baselineadminnetworkpolicies"), (POLICY, "clusternetworkpolicies")];

const LISTENER_SETS: [(&str, &str); 2] = [(GATEWAY, "listenersets"), (GATEWAY_X, "xlistenersets")];

/// Types that have a pod template.
const WORKLOADS: [(&str, &str); 6] = [
    ("apps", "deployments"),
    ("apps", "statefulsets"),
    ("apps", "daemonsets"),
    ("apps", "replicasets"),
    ("", "replicationcontrollers"),
    ("batch", "jobs"),
];

/// Where the spec of a pod names namespaces.
const OF_PODS: [&str; 5] = [
    "/affinity/podAffinity/requiredDuringSchedulingIgnoredDuringExecution/*/namespaces/*",
    "/affinity/podAffinity/preferredDuringSchedulingIgnoredDuringExecution/*/podAffinityTerm/namespaces/*",
    "/affinity/podAntiAffinity/requiredDuringSchedulingIgnoredDuringExecution/*/namespaces/*",
    "/affinity/podAntiAffinity/preferredDuringSchedulingIgnoredDuringExecution/*/podAffinityTerm/namespaces/*",
    "/volumes/*/ephemeral/volumeClaimTemplate/spec/dataSourceRef/namespace",
];

/// Where it selects them.
const OF_PODS_BY_SELECTOR: [&str; 4] = [
    "/affinity/podAffinity/requiredDuringSchedulingIgnoredDuringExecution/*/namespaceSelector",
    "/affinity/podAffinity/preferredDuringSchedulingIgnoredDuringExecution/*/podAffinityTerm/namespaceSelector",
    "/affinity/podAntiAffinity/requiredDuringSchedulingIgnoredDuringExecution/*/namespaceSelector",
    "/affinity/podAntiAffinity/preferredDuringSchedulingIgnoredDuringExecution/*/podAffinityTerm/namespaceSelector",
];

/// All of them.
pub(super) const TABLE: &[Reference] = &[
    // Who may do what.
    row(&[(RBAC, "rolebindings"), (RBAC, "clusterrolebindings")], "/subjects/*", &["/name"], ReferenceForm::Account),
    row(&FLOW_SCHEMAS, "/spec/rules/*/subjects/*", &["/serviceAccount/namespace"], ReferenceForm::Name),
    row(&FLOW_SCHEMAS, "/spec/rules/*/subjects/*", &["/user/name", "/group/name"], ReferenceForm::Account),
    // Services that the API server calls.
    row(&WEBHOOKS, "/webhooks/*", &["/clientConfig/service/namespace"], ReferenceForm::Name),
    row(&WEBHOOKS, "/webhooks/*", &["/namespaceSelector"], ReferenceForm::Selector),
    row(
        &[DEFINITIONS],
        "/spec/conversion",
        &["/webhook/clientConfig/service/namespace", "/webhookClientConfig/service/namespace"],
        ReferenceForm::Name,
    ),
    row(&[API_SERVICES], "/spec/service", &["/namespace"], ReferenceForm::Name),
    row(
        &[WEBHOOKS[0], WEBHOOKS[1], DEFINITIONS, API_SERVICES],
        "/metadata/annotations",
        &["/cert-manager.io~1inject-ca-from", "/cert-manager.io~1inject-ca-from-secret"],
        ReferenceForm::NamespacedName,
    ),
    // Admission policies.
    row(
        &[(ADMISSION, "validatingadmissionpolicies"), (ADMISSION, "mutatingadmissionpolicies")],
        "/spec/matchConstraints",
        &["/namespaceSelector"],
        ReferenceForm::Selector,
    ),
    row(&ADMISSION_BINDINGS, "/spec/matchResources", &["/namespaceSelector"], ReferenceForm::Selector),
    row(&ADMISSION_BINDINGS, "/spec/paramRef", &["/namespace"], ReferenceForm::Name),
    // Networks.
    row(
        &[("networking.k8s.io", "networkpolicies")],
        "/spec",
        &["/ingress/*/from/*/namespaceSelector", "/egress/*/to/*/namespaceSelector"],
        ReferenceForm::Selector,
    ),
    row(
        &CLUSTER_POLICIES,
        "/spec",
        &[
            "/subject/namespaces",
            "/subject/pods/namespaceSelector",
            "/ingress/*/from/*/namespaces",
            "/ingress/*/from/*/pods/namespaceSelector",
            "/egress/*/to/*/namespaces",
            "/egress/*/to/*/pods/namespaceSelector",
        ],
        ReferenceForm::Selector,
    ),
    row(&[("", "services")], "/spec", &["/externalName"], ReferenceForm::Host),
    row(&[("networking.k8s.io", "ingressclasses")], "/spec/parameters", &["/namespace"], ReferenceForm::Name),
    row(
        &ROUTES,
        "/spec",
        &[
            "/parentRefs/*/namespace",
            "/rules/*/backendRefs/*/namespace",
            "/rules/*/backendRefs/*/filters/*/requestMirror/backendRef/namespace",
            "/rules/*/filters/*/requestMirror/backendRef/namespace",
        ],
        ReferenceForm::Name,
    ),
    row(
        &GATEWAYS,
        "/spec",
        &[
            "/listeners/*/tls/certificateRefs/*/namespace",
            "/listeners/*/tls/frontendValidation/caCertificateRefs/*/namespace",
            "/backendTLS/clientCertificateRef/namespace",
            "/tls/backend/clientCertificateRef/namespace",
            "/tls/frontend/default/validation/caCertificateRefs/*/namespace",
            "/tls/frontend/perPort/*/tls/validation/caCertificateRefs/*/namespace",
        ],
        ReferenceForm::Name,
    ),
    row(
        &GATEWAYS,
        "/spec",
        &["/listeners/*/allowedRoutes/namespaces/selector", "/allowedListeners/namespaces/selector"],
        ReferenceForm::Selector,
    ),
    row(
        &LISTENER_SETS,
        "/spec",
        &["/parentRef/namespace", "/listeners/*/tls/certificateRefs/*/namespace"],
        ReferenceForm::Name,
    ),
    row(&LISTENER_SETS, "/spec", &["/listeners/*/allowedRoutes/namespaces/selector"], ReferenceForm::Selector),
    row(&[(GATEWAY, "gatewayclasses")], "/spec/parametersRef", &["/namespace"], ReferenceForm::Name),
    row(&[(GATEWAY, "referencegrants")], "/spec/from/*", &["/namespace"], ReferenceForm::Name),
    // Storage.
    row(
        &[("", "persistentvolumes")],
        "/spec",
        &[
            "/csi/controllerPublishSecretRef/namespace",
            "/csi/nodeStageSecretRef/namespace",
            "/csi/nodePublishSecretRef/namespace",
            "/csi/controllerExpandSecretRef/namespace",
            "/csi/nodeExpandSecretRef/namespace",
            "/azureFile/secretNamespace",
            "/cephfs/secretRef/namespace",
            "/flexVolume/secretRef/namespace",
            "/glusterfs/endpointsNamespace",
            "/iscsi/secretRef/namespace",
            "/rbd/secretRef/namespace",
            "/scaleIO/secretRef/namespace",
            "/storageos/secretRef/namespace",
        ],
        ReferenceForm::Name,
    ),
    row(&[("", "persistentvolumeclaims")], "/spec/dataSourceRef", &["/namespace"], ReferenceForm::Name),
    row(
        &[("apps", "statefulsets")],
        "/spec/volumeClaimTemplates/*/spec/dataSourceRef",
        &["/namespace"],
        ReferenceForm::Name,
    ),
    row(
        &[("storage.k8s.io", "storageclasses")],
        "/parameters",
        &[
            "/csi.storage.k8s.io~1provisioner-secret-namespace",
            "/csi.storage.k8s.io~1controller-publish-secret-namespace",
            "/csi.storage.k8s.io~1node-stage-secret-namespace",
            "/csi.storage.k8s.io~1node-publish-secret-namespace",
            "/csi.storage.k8s.io~1controller-expand-secret-namespace",
            "/csi.storage.k8s.io~1node-expand-secret-namespace",
        ],
        ReferenceForm::Name,
    ),
    row(
        &[
            ("snapshot.storage.k8s.io", "volumesnapshotclasses"),
            ("groupsnapshot.storage.k8s.io", "volumegroupsnapshotclasses"),
        ],
        "/parameters",
        &[
            "/csi.storage.k8s.io~1snapshotter-secret-namespace",
            "/csi.storage.k8s.io~1snapshotter-list-secret-namespace",
            "/csi.storage.k8s.io~1group-snapshotter-secret-namespace",
        ],
        ReferenceForm::Name,
    ),
    row(
        &[("snapshot.storage.k8s.io", "volumesnapshotcontents")],
        "/spec/volumeSnapshotRef",
        &["/namespace"],
        ReferenceForm::Name,
    ),
    row(
        &[("groupsnapshot.storage.k8s.io", "volumegroupsnapshotcontents")],
        "/spec/volumeGroupSnapshotRef",
        &["/namespace"],
        ReferenceForm::Name,
    ),
    // Beside which pods a pod runs, and of what its volumes are made.
    row(&[("", "pods")], "/spec", &OF_PODS, ReferenceForm::Name),
    row(&[("", "pods")], "/spec", &OF_PODS_BY_SELECTOR, ReferenceForm::Selector),
    row(&WORKLOADS, "/spec/template/spec", &OF_PODS, ReferenceForm::Name),
    row(&WORKLOADS, "/spec/template/spec", &OF_PODS_BY_SELECTOR, ReferenceForm::Selector),
    row(&[("batch", "cronjobs")], "/spec/jobTemplate/spec/template/spec", &OF_PODS, ReferenceForm::Name),
    row(
        &[("batch", "cronjobs")],
        "/spec/jobTemplate/spec/template/spec",
        &OF_PODS_BY_SELECTOR,
        ReferenceForm::Selector,
    ),
    row(&[("", "podtemplates")], "/template/spec", &OF_PODS, ReferenceForm::Name),
    row(&[("", "podtemplates")], "/template/spec", &OF_PODS_BY_SELECTOR, ReferenceForm::Selector),
];

const fn row(
    types: &'static [(&'static str, &'static str)],
    within: &'static str,
    paths: &'static [&'static str],
    what: ReferenceForm,
) -> Reference {
    Reference { types, within, paths, what }
}
