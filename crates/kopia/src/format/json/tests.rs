use super::*;
use crate::format::FormatError;
use proptest::prelude::*;

fn written(text: &[u8]) -> String {
    let mut out = Vec::new();
    write_string(&mut out, text);
    String::from_utf8(out).expect("text")
}

fn read(json: &str) -> Result<Text, FormatError> {
    let mut reader = Reader::new("test", json.as_bytes());
    let text = reader.text()?;
    reader.end()?;
    Ok(text)
}

#[test]
fn strings_are_escaped_as_go_does() {
    assert_eq!(written(b"\"\\/\n\r\t\x08\x0c"), r#""\"\\/\n\r\t\b\f""#);
    assert_eq!(written(b"<&>\x00\x1f\x7f"), "\"\\u003c\\u0026\\u003e\\u0000\\u001f\u{7f}\"");
    assert_eq!(written("\u{2028}\u{2029}\u{2027}\u{a0}é😀".as_bytes()), "\"\\u2028\\u2029\u{2027}\u{a0}é😀\"");
    assert_eq!(written(b"a\xffb"), r#""a\ufffdb""#);
}

#[test]
fn escapes_are_read_as_go_does() {
    let vectors = [
        (r#""\"\\\/\b\f\n\r\t""#, "\"\\/\u{8}\u{c}\n\r\t"),
        (r#""\u0041\u00e9\u2028""#, "Aé\u{2028}"),
        (r#""\ud83d\ude00""#, "😀"),
        (r#""\uD83D\uDE00x""#, "😀x"),
        (r#""\ud83dx""#, "\u{fffd}x"),
        (r#""\ude00x""#, "\u{fffd}x"),
        (r#""\ud83d\n""#, "\u{fffd}\n"),
        (r#""\ud83d\ud83d\ude00""#, "\u{fffd}😀"),
        (r#""\ud83d\u0041""#, "\u{fffd}A"),
    ];
    for (json, text) in vectors {
        assert_eq!(read(json).map(Text::into_string), Ok(text.to_owned()), "{json}");
    }
}

#[test]
fn a_replacement_that_was_escaped_is_known_from_a_real_one() {
    assert_eq!(read("\"\u{fffd}\"").map(|text| text.is_lossy()), Ok(false));
    assert_eq!(read(r#""\ufffd""#).map(|text| text.is_lossy()), Ok(true));
    let mut out = Vec::new();
    write_text(&mut out, &read("\"a\\ufffd\u{fffd}b\\ufffd\"").expect("a string"));
    assert_eq!(str::from_utf8(&out), Ok("\"a\\ufffd\u{fffd}b\\ufffd\""));
}

#[test]
fn bytes_that_are_no_text_become_replacements() {
    let mut reader = Reader::new("test", &b"\"a\xff\xe2\x82b\""[..]);
    assert_eq!(reader.text(), Ok(Text::from_bytes(b"a\xff\xe2\x82b")));
}

#[test]
fn strings_that_do_not_end_or_hold_controls_are_refused() {
    for json in ["", "\"", "\"a", "\"a\\", r#""\x""#, r#""\u12""#, r#""\u12g4""#, "\"\n\"", "\"\u{1}\"", "a", "\"a\"b"]
    {
        assert!(read(json).is_err(), "{json:?}");
    }
}

#[test]
fn numbers_have_no_fraction_and_fit() {
    fn number<T: TryFrom<i128>>(json: &str) -> Option<T> {
        let mut reader = Reader::new("test", json.as_bytes());
        let number = reader.integer().ok()?;
        reader.end().ok()?;
        Some(number)
    }
    assert_eq!(number::<i64>(" -9223372036854775808 "), Some(i64::MIN));
    assert_eq!(number::<u64>("18446744073709551615"), Some(u64::MAX));
    assert_eq!(number::<i32>("-0"), Some(0));
    for json in
        ["2147483648", "1.0", "1e0", "01", "+1", "-", ".5", "1.", "1e", "0x1", "", "\"1\"", "1 2", &"9".repeat(65)]
    {
        assert_eq!(number::<i32>(json), None, "{json}");
    }
}

#[test]
fn any_value_is_passed_over_and_kept_as_it_stands() {
    let value = r#"{ "a" : [1.5e-7, true,false, null, "x\u0041]"], "b": {} , "c":[ ] }"#;
    let json = format!(r#"{{"skipped":{value},"kept": {value} }}"#);
    let mut kept = String::new();
    let mut reader = Reader::new("test", json.as_bytes());
    reader
        .object::<FormatError>(|reader, key| {
            match key {
                "kept" => kept = reader.raw()?,
                _ => reader.skip()?,
            }
            Ok(())
        })
        .expect("an object");
    assert_eq!(reader.end(), Ok(()));
    assert_eq!(kept, value);
}

#[test]
fn damaged_values_are_refused() {
    for json in [
        "",
        "{",
        "[",
        "{]",
        "[}",
        "[1,]",
        "[,1]",
        "[1 2]",
        r#"{"a"}"#,
        r#"{"a":}"#,
        r#"{"a":1,}"#,
        r#"{,"a":1}"#,
        r#"{"a":1 "b":2}"#,
        "{a:1}",
        "tru",
        "nul",
        "falsy",
        "1.2.3",
        "--1",
        "]",
    ] {
        let mut reader = Reader::new("test", json.as_bytes());
        let result = reader.skip().and_then(|()| reader.end());
        assert!(result.is_err(), "{json}");
    }
}

#[test]
fn nesting_has_a_limit() {
    let nested = |depth: usize| "[".repeat(depth) + &"]".repeat(depth);
    assert_eq!(Reader::new("test", nested(128).as_bytes()).skip(), Ok(()));
    assert!(Reader::new("test", nested(129).as_bytes()).skip().is_err());
    assert!(Reader::new("test", "[{\"a\":".repeat(1 << 20).as_bytes()).skip().is_err());
}

#[test]
fn a_source_that_fails_is_told() {
    struct Broken;
    impl std::io::Read for Broken {
        fn read(&mut self, _: &mut [u8]) -> std::io::Result<usize> {
            Err(std::io::Error::other("broken"))
        }
    }
    let mut reader = Reader::new("test", std::io::BufReader::new(Broken));
    assert_eq!(reader.skip(), Err(FormatError::new("test", "it cannot be read (broken) at byte 0")));
}

proptest! {
    #[test]
    fn a_string_is_read_as_it_was_written_in_pieces_of_any_length(bytes in prop::collection::vec(any::<u8>(), 0..100), piece in 1..9_usize) {
        let json = written(&bytes);
        let mut reader = Reader::new("test", std::io::BufReader::with_capacity(piece, json.as_bytes()));
        prop_assert_eq!(reader.text(), Ok(Text::from_bytes(&bytes)));
    }

    #[test]
    fn no_bytes_panic(bytes in prop::collection::vec(prop::sample::select(&b"{}[]\",:\\u0d8tnf 1.e-\xff"[..]), 0..60)) {
        let mut reader = Reader::new("test", bytes.as_slice());
        let raw = reader.raw();
        // What is taken for JSON here is JSON for another reader, but for texts that are replaced here.
        if let Ok(raw) = raw && !raw.contains('\u{fffd}') && !raw.contains("\\ud") {
            prop_assert!(serde_json::from_str::<serde_json::Value>(&raw).is_ok(), "{}", raw);
        }
    }
}
