//! Tests of the renderer.

use expect_test::{Expect, expect};
use proptest::prelude::*;
use unicode_width::UnicodeWidthStr;

use super::*;
use crate::style::RESET;

/// Renders a text, with the styles replaced by their names.
fn shown(text: &str, width: usize) -> String {
    let mut markdown = Markdown::new(Colors::On);
    let mut lines = markdown.push(text, width);
    lines.extend(markdown.finish(width));
    let names = [
        (RESET, "{.}"),
        ("\u{1b}[1m", "{bold}"),
        ("\u{1b}[1;4m", "{title}"),
        ("\u{1b}[2m", "{dim}"),
        ("\u{1b}[3m", "{italic}"),
        ("\u{1b}[4m", "{line}"),
        ("\u{1b}[9m", "{gone}"),
        ("\u{1b}[36m", "{code}"),
        ("\u{1b}[1;36m", "{bold code}"),
        ("\u{1b}[35m", "{word}"),
    ];
    names.iter().fold(lines.join("\n"), |text, (code, name)| text.replace(code, name))
}

fn plain(text: &str, width: usize) -> Vec<String> {
    let mut markdown = Markdown::new(Colors::Off);
    let mut lines = markdown.push(text, width);
    lines.extend(markdown.finish(width));
    lines
}

fn check(text: &str, width: usize, expected: Expect) {
    expected.assert_eq(&shown(text, width));
}

#[test]
fn marks_become_styles() {
    check(
        "# Title\nSome **bold `code`** and *slanted* text, ~~gone~~.\n\n## Next\n\n---\n\nsrc/**/*.rs and 2 ** 3 stay.\n",
        80,
        expect![[r#"
            {title}Title{.}

            Some {bold}bold {.}{bold code}code{.} and {italic}slanted{.} text, {gone}gone{.}.

            {bold}Next{.}

            {dim}────────────────────────────────────────────────────────────────────────────────{.}

            src/**/*.rs and 2 ** 3 stay."#]],
    );
}

#[test]
fn marks_stay_where_there_are_no_styles() {
    let text = "## A *new* title\n\nSome **bold `code`** and ~~gone~~, in rows.\n\n| a | `b` |\n|---|---|\n| 1 | 2 |\n";
    assert_eq!(
        plain(text, 24),
        ["## A *new* title", "", "Some **bold `code`** and", "~~gone~~, in rows.", "", "a │ `b`", "──┼────", "1 │ 2"]
    );
}

#[test]
fn lists_nest_and_quotes_have_a_bar() {
    check(
        "- one\n  - two words that wrap\n- [x] done\n- [ ] open\n\n3. three\n4. four\n\n> quoted text\n> > inner\n",
        16,
        expect![[r#"
            • one
              • two words
                that wrap
            • ☑ done
            • ☐ open

            3. three
            4. four

            {dim}│ {.}quoted text
            {dim}│ {.}
            {dim}│ {.}{dim}│ {.}inner"#]],
    );
}

#[test]
fn code_is_coloured_by_its_language_and_never_wrapped() {
    check(
        "before\n```rust\nlet a = **b;\n\n`x`\n```\nafter\n\n    indented\n\n- item\n  ```\n  nested\n  ```\n",
        8,
        expect![[r#"
            before

            {dim}```rust{.}
            {word}let{.} a = **b;

            `x`
            {dim}```{.}

            after

            {code}    indented{.}

            • item

              {dim}```{.}
              {code}nested{.}
              {dim}```{.}"#]],
    );
}

#[test]
fn tables_fit_the_width_or_become_lists() {
    let table = "| name | what it is | n |\n|---|:-:|--:|\n| a | the **first** letter of all | 1 |\n| bb | x | 22 |\n";
    check(
        table,
        60,
        expect![[r#"
        {bold}name{.}{dim} │ {.}      {bold}what it is{.}       {dim} │ {.} {bold}n{.}
        {dim}─────┼─────────────────────────┼───{.}
        a   {dim} │ {.}the {bold}first{.} letter of all{dim} │ {.} 1
        bb  {dim} │ {.}           x           {dim} │ {.}22"#]],
    );
    check(
        table,
        24,
        expect![[r#"
        {bold}name{.}{dim} │ {.} {bold}what it is{.} {dim} │ {.} {bold}n{.}
        {dim}─────┼──────────────┼───{.}
        a   {dim} │ {.} the {bold}first{.}  {dim} │ {.} 1
            {dim} │ {.} letter of  {dim} │ {.}
            {dim} │ {.}    all     {dim} │ {.}
        bb  {dim} │ {.}     x      {dim} │ {.}22"#]],
    );
    check(
        table,
        12,
        expect![[r#"
        {bold}name{.}: a
        {bold}what it is{.}:
        the {bold}first{.}
        letter of
        all
        {bold}n{.}: 1

        {bold}name{.}: bb
        {bold}what it is{.}:
        x
        {bold}n{.}: 22"#]],
    );
}

#[test]
fn an_address_is_never_hidden_behind_a_text() {
    check(
        "[text](https://a.example/x) <https://b.example> ![alt](c.png) [ref]\n\n[ref]: https://d.example\n",
        100,
        expect![[r#"
            {line}text{.}{dim} (https://a.example/x){.} {line}https://b.example{.} {dim}image: {.}{line}alt{.}{dim} (c.png){.} {line}ref{.}{dim} (https://d.example){.}

            [ref]: https://d.example"#]],
    );
}

#[test]
fn character_references_become_no_control_or_invisible_characters() {
    let hidden = "a&#27;]0;x&#7;&#x9b;2J&#x202e;&zwnj;&rlm;&#13;b";
    let written = "a\\u{1b}]0;x\\u{7}\\u{9b}2J\\u{202e}\\u{200c}\\u{200f}\\u{d}b";
    let places = [
        "@",
        "# @",
        "**@**",
        "[x](http://@)",
        "[x](y \"@\")",
        "![@](@)",
        "<b>@</b>",
        "> @",
        "- @",
        "| @ |\n|---|\n| @ |",
        "[x]\n\n[x]: http://@",
        "- ```@\n  code\n  ```",
        "> ~~~ @\n> code\n> ~~~",
    ];
    let is_hidden =
        |letter: char| letter != '\n' && (letter.is_control() || "\u{202e}\u{200c}\u{200f}".contains(letter));
    for place in places {
        let mut markdown = Markdown::new(Colors::On);
        let mut lines = markdown.push(&place.replace('@', hidden), 400);
        lines.extend(markdown.open(400));
        lines.extend(markdown.finish(400));
        let shown = lines.join("\n");
        // The start of a style is the only control character.
        assert!(!shown.replace("\u{1b}[", "").contains(is_hidden), "{place}: {shown:?}");
        assert!(shown.contains(written) || shown.contains(hidden), "{place}: {shown:?}");
    }
}

#[test]
fn joiners_stay_inside_the_words_and_emoji_of_a_text() {
    let joined = "می\u{200c}خواهم 👩\u{200d}👧";
    assert_eq!(plain(joined, 80), [joined]);
    assert_eq!(plain(&format!("- **{joined}**"), 80), [format!("• {joined}")]);
    assert_eq!(plain("é&zwj;é r\u{200d}m", 80), ["é\\u{200d}é r\\u{200d}m"]);
}

#[test]
fn a_block_is_open_until_the_next_one_begins() {
    let mut markdown = Markdown::new(Colors::Off);
    assert!(markdown.push("one **tw", 80).is_empty());
    assert_eq!(markdown.open(80), ["one **tw"]);
    assert!(markdown.push("o**\n", 80).is_empty());
    assert_eq!(markdown.open(80), ["one **two**"]);
    assert_eq!(markdown.push("\n- item\n", 80), ["one **two**"]);
    assert_eq!(markdown.open(80), ["", "• item"]);
    assert_eq!(markdown.push("```py\nx = 1\ny", 80), ["", "• item", "", "```py", "x = 1"]);
    assert_eq!(markdown.open(80), ["y"]);
    assert_eq!(markdown.finish(80), ["y"]);
    assert!(markdown.finish(80).is_empty());
}

#[test]
fn definitions_of_links_alone_are_shown_as_they_are_written() {
    assert_eq!(plain("[a]: b\n", 40), ["[a]: b"]);
    assert_eq!(plain(">[a]:[\n", 40), ["│ [a]:["]);
    assert_eq!(plain("- [a]: b\n", 40), ["• [a]: b"]);
}

#[test]
fn definitions_of_links_beside_text_and_titles_of_links_are_shown() {
    assert_eq!(plain("> one\n>\n> [a]: b\n> two\n", 40), ["│ one", "│", "│ [a]: b", "│", "│ two"]);
    assert_eq!(
        plain("- [a]: b\n  one\n- two\n\n  [c]: d\n", 40),
        ["• [a]: b", "", "  one", "", "• two", "", "  [c]: d"]
    );
    assert_eq!(plain("[a](b \"c d\") and [e](e 'f')\n", 60), ["a (b \"c d\") and e (\"f\")"]);
}

#[test]
fn an_empty_quote_adds_no_line_wherever_the_text_is_cut() {
    for text in ["-\n>>>\n>a\n", ">>>\n>a\n"] {
        assert_eq!(plain(text, 40).last().unwrap(), "│ a");
        assert!(!plain(text, 40).contains(&"│".to_owned()), "{:?}", plain(text, 40));
    }
}

#[test]
fn deep_nesting_leaves_room_for_the_text() {
    assert_eq!(plain("> > > > > > > > > > word\n", 16), ["│ │ │ │ word"]);
}

proptest! {
    #[test]
    fn however_the_text_is_cut_it_looks_the_same(text in "[-#*`> \na-c|]{0,60}", cut in 0usize..60, width in 8usize..40) {
        let whole = plain(&text, width);
        let cut = cut.min(text.len());
        let mut markdown = Markdown::new(Colors::Off);
        let mut lines = markdown.push(&text[..cut], width);
        lines.extend(markdown.push(&text[cut..], width));
        lines.extend(markdown.finish(width));
        prop_assert_eq!(lines, whole);
    }

    #[test]
    fn no_word_is_lost(text in "[a-c1.)\\[\\]:(> \n-]{0,80}", width in 8usize..60) {
        let letters = |text: &str| {
            let mut found: Vec<char> = text.chars().filter(char::is_ascii_lowercase).collect();
            found.sort_unstable();
            found
        };
        // The address of a link is shown after its text.
        let shown = plain(&text, width).concat();
        let missing = letters(&text).len() > letters(&shown).len();
        prop_assert!(!missing, "{shown:?}");
    }

    #[test]
    fn text_fits_the_width(text in "([a-c]{1,9} ?|\n|- |> |\\*\\*){0,40}", width in 24usize..60) {
        let lines = plain(&text, width);
        prop_assert!(lines.iter().all(|line| line.width() <= width), "{lines:?}");
    }
}
