//! Values as text or JSON: pages of descriptions, previews and plans.

pub(crate) mod describe;
pub(crate) mod preview;
