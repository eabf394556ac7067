//! Which backups of a schedule stay although their time is over; an addition of Lifeboat.

use crate::schema::object;
use crate::well_known;
use serde_json::Value;

object! {
    /// The numbers of backups that stay after their time is over. Whichever numbers are given, the newest good one
    /// always stays.
    #[derive(Eq)]
    pub struct Retention {
        /// The newest so many.
        keep_last: Option<i64> = "keepLast";
        /// The newest of each of so many hours in which there is a backup.
        keep_hourly: Option<i64> = "keepHourly";
        /// The newest of each of so many days.
        keep_daily: Option<i64> = "keepDaily";
        /// The newest of each of so many weeks, which begin on a Monday.
        keep_weekly: Option<i64> = "keepWeekly";
        /// The newest of each of so many months.
        keep_monthly: Option<i64> = "keepMonthly";
        /// The newest of each of so many years.
        keep_yearly: Option<i64> = "keepYearly";
    }
}

impl Retention {
    /// Its numbers by their names in the JSON.
    #[must_use]
    pub fn numbers(&self) -> [(&'static str, Option<i64>); 6] {
        let Self { keep_last, keep_hourly, keep_daily, keep_weekly, keep_monthly, keep_yearly, other: _ } = self;
        [
            ("keepLast", *keep_last),
            ("keepHourly", *keep_hourly),
            ("keepDaily", *keep_daily),
            ("keepWeekly", *keep_weekly),
            ("keepMonthly", *keep_monthly),
            ("keepYearly", *keep_yearly),
        ]
    }

    /// Returns the reason for which the rules cannot be followed; `None` when they can.
    #[must_use]
    pub fn refusal(&self) -> Option<String> {
        let negative = |(name, number): (&str, Option<i64>)| number.filter(|n| *n < 0).map(|n| (name.to_owned(), n));
        let (name, number) = self.numbers().into_iter().find_map(negative)?;
        Some(format!("invalid retention: {name} is {number}, and must not be negative"))
    }

    /// Returns the reason for which the rules cannot be followed where all their names must be known. An unknown name
    /// is an error, because ignoring it would delete the backups that it was meant to keep.
    pub(crate) fn refusal_of_all(&self) -> Option<String> {
        let unknown = self.other.keys().next().map(|name| {
            let names = self.numbers().map(|(name, _)| name);
            format!("{name} is not known, only {}", names.join(", "))
        });
        unknown.or_else(|| self.refusal())
    }

    /// Reads the JSON of the annotation.
    ///
    /// # Errors
    /// JSON that is not valid, or rules that cannot be followed.
    pub fn parse(text: &str) -> Result<Self, String> {
        let wrong = |why: String| format!("invalid annotation {}: {why}", well_known::ANNOTATION_RETENTION);
        let value: Value = serde_json::from_str(text).map_err(|e| wrong(e.to_string()))?;
        if !value.is_object() {
            return Err(wrong("it is no JSON object".to_owned()));
        }
        let rules: Self = serde_json::from_value(value).map_err(|e| wrong(e.to_string()))?;
        rules.refusal_of_all().map(wrong).map_or(Ok(rules), Err)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rules(daily: i64) -> Retention {
        Retention { keep_daily: Some(daily), ..Retention::default() }
    }

    #[test]
    fn the_annotation_has_the_json_of_the_field() {
        let wrong = |why: &str| Err(format!("invalid annotation lifeboat.io/retention: {why}"));
        for (text, expected) in [
            ("{}", Ok(Retention::default())),
            (r#"{"keepDaily":7}"#, Ok(rules(7))),
            (r#"{"keepDaily":7,"keepYearly":null}"#, Ok(rules(7))),
            (r#"{"keepDaily":-1}"#, wrong("invalid retention: keepDaily is -1, and must not be negative")),
            (
                r#"{"keepDays":7}"#,
                wrong(
                    "keepDays is not known, only keepLast, keepHourly, keepDaily, keepWeekly, keepMonthly, keepYearly",
                ),
            ),
            ("7", wrong("it is no JSON object")),
            ("", wrong("EOF while parsing a value at line 1 column 0")),
        ] {
            assert_eq!(Retention::parse(text), expected, "{text}");
        }
        assert!(Retention::parse(r#"{"keepLast":"many"}"#).is_err());
    }
}
