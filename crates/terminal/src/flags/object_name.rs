//! Argument that names a single object: `TYPE/NAME`, or `TYPE NAME`.

use anyhow::{Result, bail};
use clap::Args;
use lifeboat_object::GroupResource;

/// A type and a name.
#[derive(Clone, Debug, Default, PartialEq, Eq, Args)]
pub struct ObjectArgs {
    /// The type of the object, as kubectl takes it, and its name
    #[arg(value_name = "TYPE/NAME")]
    what: String,
    /// The name of the object, when it is not given with the type
    #[arg(id = "object_name", value_name = "NAME")]
    name: Option<String>,
}

impl ObjectArgs {
    /// The word for the type, and the name.
    ///
    /// # Errors
    /// When it is something else.
    pub fn type_and_name(&self) -> Result<(&str, &str)> {
        match type_and_name(&self.what, self.name.as_deref())? {
            (word, Some(name)) => Ok((word, name)),
            (_, None) => bail!(no_object(&self.what)),
        }
    }
}

/// The word for the type, and the name if there is one.
///
/// # Errors
/// When there are two names, or an odd one.
pub fn type_and_name<'a>(what: &'a str, name: Option<&'a str>) -> Result<(&'a str, Option<&'a str>)> {
    let (word, name) = match (what.split_once('/'), name) {
        (Some((word, name)), None) => (word, Some(name)),
        (None, name) => (what, name),
        (Some(_), Some(name)) => bail!("{what} has a name, and {name:?} is another one: give one"),
    };
    if word.is_empty() || name.is_some_and(|name| name.is_empty() || name.contains('/')) {
        let given =
            name.filter(|_| !what.contains('/')).map_or_else(|| what.to_owned(), |name| format!("{what} {name}"));
        bail!(no_object(&given));
    }
    Ok((word, name))
}

fn no_object(given: &str) -> String {
    format!("{given:?} is no TYPE/NAME, such as deployment/web")
}

/// Checks that a namespace is given only for objects that are in one.
///
/// # Errors
/// When it is not.
pub fn check_namespace(resource: &GroupResource, namespaced: bool, given: Option<&str>) -> Result<()> {
    match given {
        Some(given) if !namespaced => bail!("{resource} are in no namespace: leave out {given:?}"),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_object_is_a_type_and_a_name() {
        let parsed =
            |what: &'static str, name: Option<&'static str>| type_and_name(what, name).map_err(|e| e.to_string());
        assert_eq!(parsed("deploy.apps/web", None), Ok(("deploy.apps", Some("web"))));
        assert_eq!(parsed("deploy.apps", Some("web")), Ok(("deploy.apps", Some("web"))));
        assert_eq!(parsed("deploy", None), Ok(("deploy", None)));
        for (what, name, told) in [
            ("", None, "\"\""),
            ("/web", None, "\"/web\""),
            ("deploy/", None, "\"deploy/\""),
            ("deploy/a/b", None, "\"deploy/a/b\""),
            ("deploy", Some("a/b"), "\"deploy a/b\""),
            ("deploy", Some(""), "\"deploy \""),
        ] {
            assert_eq!(parsed(what, name), Err(format!("{told} is no TYPE/NAME, such as deployment/web")));
        }
        let two = "deploy/web has a name, and \"other\" is another one: give one";
        assert_eq!(parsed("deploy/web", Some("other")), Err(two.to_owned()));
        let alone = ObjectArgs { what: "deploy".to_owned(), name: None };
        let told = "\"deploy\" is no TYPE/NAME, such as deployment/web";
        assert_eq!(alone.type_and_name().unwrap_err().to_string(), told);
    }

    #[test]
    fn a_namespace_is_for_types_that_have_some() {
        let check = |namespaced: bool, given: Option<&str>| {
            check_namespace(&GroupResource::new("", "nodes"), namespaced, given).map_err(|e| e.to_string())
        };
        assert_eq!((check(true, None), check(true, Some("a")), check(false, None)), (Ok(()), Ok(()), Ok(())));
        assert_eq!(check(false, Some("a")), Err("nodes are in no namespace: leave out \"a\"".to_owned()));
    }
}
