//! The rules that keep a backup, as its record says them: they hold where its schedule is not there, too. An addition of Lifeboat.

use crate::{ObjectMeta, Retention, Time, well_known};
use serde::{Deserialize, Serialize};

/// The value of the annotation [`well_known::ANNOTATION_KEPT_BY`]. Fields of later versions are lost when this version
/// writes it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct KeptBy {
    /// The name of the schedule.
    pub schedule: String,
    /// The UID of the cluster of the schedule; empty when it was not known.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub cluster: String,
    /// The rules of the schedule; `None` where it had none, and the backup is released.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rules: Option<Retention>,
    /// The zone of its days, by its name in the IANA database; `None` for that of the server.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub zone: Option<String>,
    /// Its [threshold](crate::Schedule::shrink_threshold).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub shrink_threshold: Option<u8>,
    /// When these rules were written here.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub since: Option<Time>,
    /// When somebody has released the backup: no rules keep it any more.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub released: Option<Time>,
    /// True when the record in the bucket says, too, that the backup is released.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub recorded: bool,
}

impl KeptBy {
    /// Reads the annotation of a backup, or of its record; `None` when there is none.
    ///
    /// # Errors
    /// An annotation that cannot be followed.
    #[must_use]
    pub fn of(meta: &ObjectMeta) -> Option<Result<Self, String>> {
        meta.annotations.get(well_known::ANNOTATION_KEPT_BY).map(|text| Self::parse(text))
    }

    /// Reads the JSON of the annotation.
    ///
    /// # Errors
    /// JSON that is not valid, or rules that cannot be followed. An unknown rule is an error, because ignoring it would
    /// delete the backups that it was meant to keep.
    pub fn parse(text: &str) -> Result<Self, String> {
        let wrong = |why: String| format!("invalid annotation {}: {why}", well_known::ANNOTATION_KEPT_BY);
        if !text.trim_start().starts_with('{') {
            return Err(wrong("it is no JSON object".to_owned()));
        }
        let found: Self = serde_json::from_str(text).map_err(|e| wrong(e.to_string()))?;
        match found.rules.as_ref().and_then(Retention::refusal_of_all) {
            Some(why) => Err(wrong(why)),
            None => Ok(found),
        }
    }

    /// The value of the annotation.
    #[must_use]
    pub fn value(&self) -> String {
        serde_json::to_string(self).unwrap_or_default()
    }

    /// Returns true if both say the same rules, whatever else differs, such as when they were written or whether the
    /// backup was released.
    #[must_use]
    pub fn has_the_rules_of(&self, other: &Self) -> bool {
        let rules = |one: &Self| (one.schedule.clone(), one.rules.clone(), one.zone.clone(), one.shrink_threshold);
        rules(self) == rules(other)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_annotation_says_rules_and_whether_somebody_has_released_the_backup() {
        let at = |text: &str| Some(Time::new(text.parse().unwrap()));
        let rules = Some(Retention { keep_daily: Some(7), ..Retention::default() });
        let kept = KeptBy {
            schedule: "nightly".into(),
            cluster: "c".into(),
            rules: rules.clone(),
            zone: Some("Europe/Berlin".into()),
            shrink_threshold: Some(50),
            since: at("2026-11-22T03:00:00Z"),
            ..KeptBy::default()
        };
        let text = r#"{"schedule":"nightly","cluster":"c","rules":{"keepDaily":7},"zone":"Europe/Berlin","shrinkThreshold":50,"since":"2026-11-22T03:00:00Z"}"#;
        assert_eq!((kept.value().as_str(), KeptBy::parse(text)), (text, Ok(kept.clone())));
        let released = KeptBy { released: at("2026-11-23T00:00:00Z"), recorded: true, ..kept.clone() };
        assert_eq!(KeptBy::parse(&released.value()), Ok(released.clone()));
        assert!(released.has_the_rules_of(&kept));
        assert!(!KeptBy { zone: None, ..kept.clone() }.has_the_rules_of(&kept));
        let of_later = KeptBy::parse(r#"{"schedule":"nightly","ofTheFuture":1}"#);
        assert_eq!(of_later, Ok(KeptBy { schedule: "nightly".into(), ..KeptBy::default() }));
    }

    #[test]
    fn what_cannot_be_followed_is_said() {
        for (text, expected) in [
            ("7", "it is no JSON object"),
            ("{}", "missing field `schedule` at line 1 column 2"),
            ("[\"s\"]", "it is no JSON object"),
            (
                r#"{"schedule":"s","rules":{"keepDays":7}}"#,
                "keepDays is not known, only keepLast, keepHourly, keepDaily, keepWeekly, keepMonthly, keepYearly",
            ),
            (
                r#"{"schedule":"s","rules":{"keepDaily":-7}}"#,
                "invalid retention: keepDaily is -7, and must not be negative",
            ),
        ] {
            assert_eq!(KeptBy::parse(text), Err(format!("invalid annotation lifeboat.io/kept-by: {expected}")));
        }
        let mut meta = ObjectMeta::default();
        assert_eq!(KeptBy::of(&meta), None);
        meta.annotations.insert(well_known::ANNOTATION_KEPT_BY.into(), "no".into());
        assert!(KeptBy::of(&meta).unwrap().is_err());
    }
}
