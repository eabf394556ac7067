//! The page of supported versions against the parts that this version does not have.

use lifeboat_api::UnsupportedPart;

#[test]
fn the_page_lists_what_this_version_does_not_have_and_no_more() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/supported.md");
    let page = std::fs::read_to_string(path).expect("the page is there");
    let (_, section) = page.split_once("## Not there in this version\n").expect("the page has the section");
    let rows: Vec<&str> =
        section.lines().skip_while(|line| !line.starts_with('|')).take_while(|line| line.starts_with('|')).collect();
    let row =
        |part: UnsupportedPart| format!("| {} | {} | {} |", part.why(), part.next_of_backup(), part.next_of_restore());
    let expected: Vec<String> = UnsupportedPart::ALL.map(row).into();
    assert_eq!(rows.get(2..).unwrap_or_default(), expected);
}
