//! Resource types, how they are written and their schema, from one declaration.
//!
//! A plain derive would need the JSON name, Go's rules for empty values, nullability and the schema of every field
//! to be kept in step by hand for thirteen kinds. The macros here take each of them once: [`object!`] for objects,
//! [`words!`] for enumerations of words, [`resource!`] for the kinds themselves.

use serde_json::{Map, Value, json};
use std::collections::BTreeMap;

/// A schema object of a CustomResourceDefinition.
pub(crate) type Schema = Map<String, Value>;

/// A type that a field of a resource can have.
pub(crate) trait FieldType: Sized {
    /// Its schema.
    fn schema() -> Schema;

    /// Returns true if Go's `omitempty` leaves this value out. It never leaves out a struct, so that empty objects and
    /// zero durations are written.
    fn is_omitted(&self) -> bool {
        false
    }

    /// A value with nothing left out.
    #[cfg(test)]
    fn full() -> Self;
}

/// The properties of a declared field besides its name and type.
#[derive(Clone, Copy)]
pub(crate) struct Facets {
    /// Written even when empty.
    pub(crate) is_written: bool,
    is_required: bool,
    is_nullable: bool,
    /// Younger than Velero 1.18.2: read, written when set, but not in the schema.
    is_later: bool,
    keyword: Option<(&'static str, &'static str)>,
}

impl Facets {
    pub(crate) const NONE: Self =
        Self { is_written: false, is_required: false, is_nullable: false, is_later: false, keyword: None };

    pub(crate) const fn required(self) -> Self {
        Self { is_written: true, is_required: true, ..self }
    }

    pub(crate) const fn written(self) -> Self {
        Self { is_written: true, ..self }
    }

    pub(crate) const fn nullable(self) -> Self {
        Self { is_nullable: true, ..self }
    }

    pub(crate) const fn later(self) -> Self {
        Self { is_later: true, ..self }
    }

    pub(crate) const fn int64(self) -> Self {
        self.with("format", "\"int64\"")
    }

    pub(crate) const fn base64(self) -> Self {
        self.with("format", "\"byte\"")
    }

    pub(crate) const fn atomic(self) -> Self {
        self.with("x-kubernetes-list-type", "\"atomic\"")
    }

    pub(crate) const fn untyped(self) -> Self {
        self.with("x-kubernetes-preserve-unknown-fields", "true")
    }

    pub(crate) const fn filled(self) -> Self {
        self.with("minItems", "1")
    }

    /// The API server fills in the empty string.
    pub(crate) const fn defaulted(self) -> Self {
        self.with("default", "\"\"")
    }

    const fn with(self, keyword: &'static str, json: &'static str) -> Self {
        Self { keyword: Some((keyword, json)), ..self }
    }
}

/// Adds the property `name` of type `T` to the schema of an object.
pub(crate) fn add_property<T: FieldType>(object: &mut Schema, name: &str, doc: &[&str], facets: Facets) {
    if facets.is_later {
        return;
    }
    let mut schema = T::schema();
    describe(&mut schema, doc);
    if facets.is_nullable {
        schema.insert("nullable".to_owned(), Value::Bool(true));
    }
    if let Some((keyword, json)) = facets.keyword {
        schema.insert(keyword.to_owned(), serde_json::from_str(json).unwrap_or_default());
    }
    if let Value::Object(properties) = object.entry("properties").or_insert_with(|| json!({})) {
        properties.insert(name.to_owned(), Value::Object(schema));
    }
    if facets.is_required
        && let Value::Array(required) = object.entry("required").or_insert_with(|| json!([]))
    {
        required.push(json!(name));
    }
}

/// Sets the description of a schema to the text of a doc comment.
pub(crate) fn describe(schema: &mut Schema, doc: &[&str]) {
    let text: Vec<&str> = doc.iter().map(|line| line.trim()).collect();
    schema.insert("description".to_owned(), Value::String(text.join(" ").replace('`', "")));
}

/// A schema that says only the type.
pub(crate) fn of_type(name: &str) -> Schema {
    Schema::from_iter([("type".to_owned(), json!(name))])
}

/// Declares an object: `field: Type = "jsonName" facets…;` in the order they are written, and behind them `other` with the fields
/// that we do not know, so that writing an object back loses nothing. `(atomic)` after the name marks an object that server-side
/// apply replaces as a whole.
macro_rules! object {
    (
        $(#[doc = $doc:literal])*
        $(#[derive($($derive:ident),*)])?
        pub struct $name:ident $(($atomic:ident))? {
            $($(#[doc = $field_doc:literal])* $field:ident: $ty:ty = $json:literal $($facet:ident)*;)*
        }
    ) => {
        $(#[doc = $doc])*
        #[derive(Clone, Debug, Default, PartialEq, serde::Deserialize)]
        $(#[derive($($derive),*)])?
        pub struct $name {
            $(
                $(#[doc = $field_doc])*
                #[serde(default, rename = $json, deserialize_with = "crate::meta::null_default")]
                pub $field: $ty,
            )*
            /// Fields that we do not know.
            #[serde(flatten)]
            pub other: std::collections::BTreeMap<String, serde_json::Value>,
        }

        impl serde::Serialize for $name {
            fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                use crate::schema::{Facets, FieldType};
                use serde::ser::SerializeMap as _;
                let mut map = serializer.serialize_map(None)?;
                $(
                    if const { Facets::NONE$(.$facet())*.is_written } || !FieldType::is_omitted(&self.$field) {
                        map.serialize_entry($json, &self.$field)?;
                    }
                )*
                for (name, value) in &self.other {
                    map.serialize_entry(name, value)?;
                }
                map.end()
            }
        }

        impl crate::schema::FieldType for $name {
            fn schema() -> crate::schema::Schema {
                use crate::schema::{Facets, add_property};
                let mut schema = crate::schema::of_type("object");
                $(
                    schema.insert(
                        "x-kubernetes-map-type".to_owned(),
                        serde_json::Value::String(stringify!($atomic).to_owned()),
                    );
                )?
                $(add_property::<$ty>(&mut schema, $json, &[$($field_doc),*], Facets::NONE$(.$facet())*);)*
                schema
            }

            #[cfg(test)]
            fn full() -> Self {
                Self { $($field: crate::schema::FieldType::full(),)* ..Self::default() }
            }
        }
    };
}
pub(crate) use object;

/// Declares an enumeration of words: `Variant` is its own word unless `= "word"` says otherwise; `(later)` marks
/// words that Velero 1.18.2 does not know.
macro_rules! words {
    (
        $(#[$meta:meta])*
        pub enum $name:ident {
            $($(#[$variant_meta:meta])* $variant:ident $(= $word:literal)? $(($later:ident))?,)*
        }
    ) => {
        $(#[$meta])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
        pub enum $name {
            $($(#[$variant_meta])* $(#[serde(rename = $word)])? $variant,)*
        }

        impl $name {
            /// The word as it is written.
            #[must_use]
            pub const fn as_str(self) -> &'static str {
                match self {
                    $(Self::$variant => crate::schema::word!($variant $($word)?),)*
                }
            }
        }

        impl crate::schema::FieldType for $name {
            fn schema() -> crate::schema::Schema {
                let words = [$((Self::$variant, crate::schema::is_later!($($later)?)),)*];
                let known = words.iter().filter(|(_, later)| !later).map(|(word, _)| word.as_str().into()).collect();
                let mut schema = crate::schema::of_type("string");
                schema.insert("enum".to_owned(), serde_json::Value::Array(known));
                schema
            }

            fn is_omitted(&self) -> bool {
                self.as_str().is_empty()
            }

            #[cfg(test)]
            fn full() -> Self {
                let all = [$(Self::$variant),*];
                for word in all {
                    assert_eq!(serde_json::to_value(word).unwrap(), word.as_str());
                }
                all.into_iter().find(|word| !word.is_omitted()).unwrap()
            }
        }
    };
}
pub(crate) use words;

macro_rules! word {
    ($variant:ident) => {
        stringify!($variant)
    };
    ($variant:ident $word:literal) => {
        $word
    };
}
pub(crate) use word;

macro_rules! is_later {
    () => {
        false
    };
    (later) => {
        true
    };
}
pub(crate) use is_later;

/// Declares a kind: its plural, version, spec and status.
macro_rules! resource {
    (
        $(#[doc = $doc:literal])*
        $name:ident, $plural:literal, $version:literal,
        $(#[doc = $spec_doc:literal])* $spec:ident,
        $(#[doc = $status_doc:literal])* $status:ident
    ) => {
        $(#[doc = $doc])*
        #[derive(Clone, Debug, PartialEq, serde::Serialize, serde::Deserialize)]
        #[serde(rename_all = "camelCase")]
        pub struct $name {
            /// The name of this kind.
            pub kind: String,
            /// Group and version.
            pub api_version: String,
            /// Metadata.
            #[serde(default, deserialize_with = "crate::meta::null_default")]
            pub metadata: crate::ObjectMeta,
            $(#[doc = $spec_doc])*
            #[serde(default, deserialize_with = "crate::meta::null_default")]
            pub spec: $spec,
            $(#[doc = $status_doc])*
            #[serde(default, deserialize_with = "crate::meta::null_default")]
            pub status: $status,
            /// Fields that we do not know.
            #[serde(flatten)]
            pub other: std::collections::BTreeMap<String, serde_json::Value>,
        }

        impl Default for $name {
            fn default() -> Self {
                use crate::Resource as _;
                Self {
                    kind: Self::KIND.to_owned(),
                    api_version: Self::api_version(),
                    metadata: crate::ObjectMeta::default(),
                    spec: $spec::default(),
                    status: $status::default(),
                    other: std::collections::BTreeMap::new(),
                }
            }
        }

        impl crate::Resource for $name {
            const KIND: &'static str = stringify!($name);
            const PLURAL: &'static str = $plural;
            const VERSION: &'static str = $version;

            fn from_json(bytes: &[u8]) -> serde_json::Result<Self> {
                serde_json::from_slice(bytes)
            }
        }

        impl crate::schema::FieldType for $name {
            fn schema() -> crate::schema::Schema {
                use crate::schema::{Facets, add_property, describe, of_type};
                let mut schema = of_type("object");
                describe(&mut schema, &[$($doc),*]);
                add_property::<String>(&mut schema, "apiVersion", &["Group and version."], Facets::NONE);
                add_property::<String>(&mut schema, "kind", &["The name of this kind."], Facets::NONE);
                if let Some(serde_json::Value::Object(properties)) = schema.get_mut("properties") {
                    // The API server knows the schema of metadata and allows no other.
                    properties.insert("metadata".to_owned(), of_type("object").into());
                }
                add_property::<$spec>(&mut schema, "spec", &[$($spec_doc),*], Facets::NONE);
                add_property::<$status>(&mut schema, "status", &[$($status_doc),*], Facets::NONE);
                schema
            }

            #[cfg(test)]
            fn full() -> Self {
                Self { spec: $spec::full(), status: $status::full(), ..Self::default() }
            }
        }
    };
}
pub(crate) use resource;

impl FieldType for String {
    fn schema() -> Schema {
        of_type("string")
    }

    fn is_omitted(&self) -> bool {
        self.is_empty()
    }

    #[cfg(test)]
    fn full() -> Self {
        "text".to_owned()
    }
}

impl FieldType for bool {
    fn schema() -> Schema {
        of_type("boolean")
    }

    fn is_omitted(&self) -> bool {
        !self
    }

    #[cfg(test)]
    fn full() -> Self {
        true
    }
}

impl FieldType for i64 {
    fn schema() -> Schema {
        of_type("integer")
    }

    fn is_omitted(&self) -> bool {
        *self == 0
    }

    #[cfg(test)]
    fn full() -> Self {
        7
    }
}

impl FieldType for crate::Duration {
    fn schema() -> Schema {
        of_type("string")
    }

    #[cfg(test)]
    fn full() -> Self {
        Self::from_secs(90)
    }
}

impl FieldType for crate::Time {
    fn schema() -> Schema {
        let mut schema = of_type("string");
        schema.insert("format".to_owned(), json!("date-time"));
        schema
    }

    #[cfg(test)]
    fn full() -> Self {
        Self::new(jiff::Timestamp::UNIX_EPOCH)
    }
}

impl FieldType for Value {
    fn schema() -> Schema {
        let mut schema = of_type("object");
        schema.insert("x-kubernetes-preserve-unknown-fields".to_owned(), Self::Bool(true));
        schema
    }

    #[cfg(test)]
    fn full() -> Self {
        json!({"any": "thing"})
    }
}

impl<T: FieldType> FieldType for Option<T> {
    fn schema() -> Schema {
        T::schema()
    }

    fn is_omitted(&self) -> bool {
        self.is_none()
    }

    #[cfg(test)]
    fn full() -> Self {
        Some(T::full())
    }
}

impl<T: FieldType> FieldType for Vec<T> {
    fn schema() -> Schema {
        let mut schema = of_type("array");
        schema.insert("items".to_owned(), T::schema().into());
        schema
    }

    fn is_omitted(&self) -> bool {
        self.is_empty()
    }

    #[cfg(test)]
    fn full() -> Self {
        vec![T::full()]
    }
}

impl<T: FieldType> FieldType for BTreeMap<String, T> {
    fn schema() -> Schema {
        let mut schema = of_type("object");
        schema.insert("additionalProperties".to_owned(), T::schema().into());
        schema
    }

    fn is_omitted(&self) -> bool {
        self.is_empty()
    }

    #[cfg(test)]
    fn full() -> Self {
        Self::from([("key".to_owned(), T::full())])
    }
}
