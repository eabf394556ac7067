//! Keys as paths, for stores that are file systems.

/// The components of a key; `None` when the key cannot be a path below a directory.
pub(crate) fn components(key: &str) -> Option<Vec<&str>> {
    let parts: Vec<&str> = key.split('/').collect();
    parts.iter().all(|p| is_name(p)).then_some(parts)
}

fn is_name(part: &str) -> bool {
    !part.is_empty() && part != "." && part != ".." && part.len() <= 255 && !part.contains('\0') && !is_temporary(part)
}

/// Beginning of the names of files that are being written.
pub(crate) const TEMPORARY: &str = ".lifeboat-put-";

pub(crate) fn is_temporary(name: &str) -> bool {
    name.starts_with(TEMPORARY)
}
