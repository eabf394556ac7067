//! Names of other objects.

use crate::schema::object;

object! {
    /// Names an object of some type in the same namespace.
    #[derive(Eq)]
    pub struct TypedLocalObjectReference (atomic) {
        /// API group; absent or empty for the core group.
        // compat: Velero writes null when unset.
        api_group: Option<String> = "apiGroup" written;
        /// Kind.
        kind: String = "kind" required;
        /// Name.
        name: String = "name" required;
    }
}

object! {
    /// Names a key of a Secret.
    #[derive(Eq)]
    pub struct SecretKeySelector (atomic) {
        /// The Secret.
        name: String = "name" defaulted;
        /// The key.
        key: String = "key" required;
        /// True when the Secret or its key may be missing.
        optional: Option<bool> = "optional";
    }
}

object! {
    /// Names an object anywhere.
    #[derive(Eq)]
    pub struct ObjectReference (atomic) {
        /// Kind.
        kind: String = "kind";
        /// Namespace.
        namespace: String = "namespace";
        /// Name.
        name: String = "name";
        /// UID.
        uid: String = "uid";
        /// API version.
        api_version: String = "apiVersion";
        /// Resource version.
        resource_version: String = "resourceVersion";
        /// A part of the object.
        field_path: String = "fieldPath";
    }
}
