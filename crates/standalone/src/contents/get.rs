//! `contents NAME get TYPE[/NAME]`: prints objects of a backup.

use super::objects::{ObjectPages, types_of};
use crate::backup_source::OpenBackup;
use anyhow::{Result, bail};
use clap::{Args, ValueEnum};
use lifeboat_object::printable;
use lifeboat_terminal::flags::object_name::{check_namespace, type_and_name};
use lifeboat_terminal::flags::object_type::one_of;
use lifeboat_terminal::output::yaml;
use serde_json::Value;
use std::io::{BufWriter, Write};

/// Which objects, and how.
#[derive(Debug, Args)]
pub(crate) struct GetArgs {
    /// A type, as kubectl takes it, and the name of one object of it
    #[arg(value_name = "TYPE[/NAME]")]
    what: String,
    /// The name of one object, when it is not given with the type
    #[arg(id = "object_name", value_name = "NAME")]
    name: Option<String>,
    /// Only objects of this namespace
    #[arg(long, value_name = "NAMESPACE")]
    pub(super) object_namespace: Option<String>,
    /// Output format; each object is a document of its own
    #[arg(long, short, value_enum, default_value_t = ObjectFormat::Yaml)]
    output: ObjectFormat,
    /// Show the values of Secrets
    #[arg(long)]
    show_secrets: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum ObjectFormat {
    /// YAML documents
    Yaml,
    /// A JSON document per line
    Json,
    /// Namespace and name
    Name,
}

impl GetArgs {
    pub(super) async fn run(self, opened: &OpenBackup) -> Result<()> {
        let (word, name) = type_and_name(&self.what, self.name.as_deref())?;
        let mut out = BufWriter::new(std::io::stdout());
        let mut printed = 0;
        let mut types = types_of(&opened.store, word)?;
        if let Some(name) = name {
            types = one_of(word, name, &types)?.into_iter().collect();
        }
        if let [resource] = types.as_slice()
            && let Some(served) = opened.store.type_of(resource)
        {
            check_namespace(resource, served.namespaced, self.object_namespace.as_deref())?;
        }
        for resource in types {
            let mut objects = ObjectPages::of(&opened.store, resource.clone(), self.object_namespace.clone(), name)?;
            loop {
                let page = objects.next(self.show_secrets).await?;
                if page.is_empty() {
                    break;
                }
                for object in &page {
                    print(self.output, &resource.to_string(), object, &mut out)?;
                }
                printed += page.len();
            }
        }
        out.flush()?;
        if printed == 0 {
            let place =
                self.object_namespace.as_ref().map_or_else(String::new, |name| format!(" in the namespace {name}"));
            let what = name.map_or_else(|| word.to_owned(), |name| format!("{word}/{name}"));
            bail!("{} has no {what}{place}", opened.what);
        }
        Ok(())
    }
}

fn print(form: ObjectFormat, resource: &str, object: &Value, out: &mut impl Write) -> Result<()> {
    match form {
        ObjectFormat::Yaml => writeln!(out, "---\n{}", yaml::print(object)?.trim_end())?,
        ObjectFormat::Json => writeln!(out, "{object}")?,
        ObjectFormat::Name => {
            let text = |field: &str| object["metadata"][field].as_str();
            let place = text("namespace").map_or_else(String::new, |namespace| format!("{namespace}/"));
            writeln!(out, "{}", printable(format!("{resource}/{place}{}", text("name").unwrap_or_default())))?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn each_form() {
        let pod = json!({"kind": "Pod", "metadata": {"name": "web", "namespace": "shop"}});
        for (form, expected) in [
            (ObjectFormat::Yaml, "---\nkind: Pod\nmetadata:\n  name: web\n  namespace: shop\n"),
            (ObjectFormat::Json, "{\"kind\":\"Pod\",\"metadata\":{\"name\":\"web\",\"namespace\":\"shop\"}}\n"),
            (ObjectFormat::Name, "pods/shop/web\n"),
        ] {
            let mut out = Vec::new();
            print(form, "pods", &pod, &mut out).unwrap();
            assert_eq!(String::from_utf8(out).unwrap(), expected);
        }
        for (name, expected) in [("n", "nodes/n\n"), ("n\nother", "nodes/n\\nother\n")] {
            let mut out = Vec::new();
            print(ObjectFormat::Name, "nodes", &json!({"metadata": {"name": name}}), &mut out).unwrap();
            assert_eq!(String::from_utf8(out).unwrap(), expected);
        }
    }
}
