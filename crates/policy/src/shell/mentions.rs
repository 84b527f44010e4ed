//! A second check of a command that a rule may deny, for what the parser gets wrong or cannot know.
//!
//! The parser tries to find every program. Bash's grammar is large, so this module does not rely on
//! it: if a word of the rule appears anywhere in the text, it must be proved to be an argument of a
//! program that runs nothing; otherwise the rule may apply. The proof uses a small part of the
//! language that every shell interprets alike (`segments`). `evaluates_later` finds constructs that
//! make bash interpret text a second time.

/// Programs that run nothing, whatever their arguments are. Builtins that evaluate their arguments
/// are not among them.
const INERT: [&str; 52] = [
    "basename",
    "cat",
    "cd",
    "chmod",
    "cmp",
    "comm",
    "cp",
    "cut",
    "date",
    "df",
    "diff",
    "dirname",
    "du",
    "echo",
    "egrep",
    "exit",
    "false",
    "fgrep",
    "file",
    "grep",
    "head",
    "hostname",
    "id",
    "jq",
    "ln",
    "ls",
    "md5sum",
    "mkdir",
    "mv",
    "nl",
    "od",
    "pwd",
    "readlink",
    "realpath",
    "rmdir",
    "seq",
    "sha256sum",
    "sleep",
    "stat",
    "tac",
    "tail",
    "tee",
    "touch",
    "tr",
    "tree",
    "true",
    "type",
    "uname",
    "uniq",
    "wc",
    "which",
    "whoami",
];

/// Subcommands of git that run nothing that their operands name. Options that do are checked
/// separately.
const INERT_GIT: [&str; 18] = [
    "add",
    "blame",
    "branch",
    "checkout",
    "cherry-pick",
    "commit",
    "diff",
    "log",
    "ls-files",
    "merge",
    "reset",
    "restore",
    "revert",
    "show",
    "stash",
    "status",
    "switch",
    "tag",
];

/// Names that bash evaluates as commands, or that change how it interprets what follows.
const EVALUATED_NAMES: [&str; 14] = [
    "PS0",
    "PS1",
    "PS2",
    "PS4",
    "PROMPT_COMMAND",
    "BASH_ENV",
    "BASH_ALIASES",
    "BASH_CMDS",
    "BASH_FUNC",
    "BASH_LOADABLES",
    "expand_aliases",
    "extglob",
    "coproc",
    "SHELLOPTS",
];

/// Returns whether all these words appear in the text and at least one of them is not proved to be
/// inert. Quotes and backslashes do not hide a word.
pub(crate) fn may_mention(text: &str, program: &str, others: &[String]) -> bool {
    let bare: String = text.chars().filter(|c| !matches!(c, '\'' | '"' | '\\')).collect();
    if !has_token(&bare, program) {
        return false;
    }
    // The shell may assemble a later word from parts, so then the program's name alone decides.
    let is_literal = !text.contains(['$', '`', '*', '?', '[', '{']);
    if is_literal && !others.iter().all(|other| has_token(&bare, other)) {
        return false;
    }
    let Some(segments) = segments(text) else { return true };
    segments.iter().any(|words| !is_explained(words, program))
}

/// Returns whether a plain command mentions the program only where that has no effect. The parser
/// has judged the first word.
fn is_explained(words: &[String], program: &str) -> bool {
    let Some((first, arguments)) = words.split_first() else { return true };
    let is_mentioned = arguments.iter().any(|word| has_token(word, program));
    !is_mentioned || is_inert(super::base(first), arguments)
}

fn is_inert(name: &str, arguments: &[String]) -> bool {
    let starts = |start: &str| arguments.iter().any(|word| word.starts_with(start));
    match name {
        "git" => {
            let inert = arguments.first().is_some_and(|subcommand| INERT_GIT.contains(&subcommand.as_str()));
            inert && !starts("--e") && !starts("--o") && !starts("-O") && !starts("-c") && !starts("-S")
        }
        "find" => !starts("-exec") && !starts("-ok"),
        _ => INERT.contains(&name),
    }
}

/// Returns whether a word appears in a text as a whole name.
fn has_token(text: &str, word: &str) -> bool {
    let is_part = |c: char| c.is_alphanumeric() || matches!(c, '_' | '-' | '.' | '+');
    !word.is_empty()
        && text.match_indices(word).any(|(at, found)| {
            let before = text[..at].chars().next_back();
            let after = text[at + found.len()..].chars().next();
            !before.is_some_and(is_part) && !after.is_some_and(is_part)
        })
}

/// Returns the words of each simple command of a text that consists only of simple commands, quotes
/// and operators. Returns None if it contains any other construct, expansion, here-document,
/// comment or keyword.
fn segments(text: &str) -> Option<Vec<Vec<String>>> {
    let mut segments = vec![Vec::new()];
    let mut word: Option<String> = None;
    let mut rest = text.chars().peekable();
    while let Some(c) = rest.next() {
        let mut end_word = |segments: &mut Vec<Vec<String>>| {
            if let (Some(word), Some(segment)) = (word.take(), segments.last_mut()) {
                segment.push(word);
            }
        };
        match c {
            ' ' | '\t' => end_word(&mut segments),
            '\n' | ';' | '&' | '|' => {
                end_word(&mut segments);
                segments.push(Vec::new());
            }
            // A redirection. The file name becomes an ordinary word, and so does the number before
            // the operator.
            '>' | '<' => {
                end_word(&mut segments);
                if c == '<' && rest.peek() == Some(&'<') {
                    return None;
                }
                while rest.next_if(|c| matches!(c, '>' | '&')).is_some() {}
            }
            '\'' => {
                let word = word.get_or_insert_default();
                loop {
                    match rest.next()? {
                        '\'' => break,
                        c => word.push(c),
                    }
                }
            }
            '"' => {
                let word = word.get_or_insert_default();
                loop {
                    match rest.next()? {
                        '"' => break,
                        '$' | '`' | '!' => return None,
                        '\\' => word.push(rest.next()?),
                        c => word.push(c),
                    }
                }
            }
            '\\' => match rest.next()? {
                '\n' => return None,
                c => word.get_or_insert_default().push(c),
            },
            _ if c.is_ascii_alphanumeric() || "_-./,:+@%=^~*?".contains(c) => word.get_or_insert_default().push(c),
            _ if !c.is_ascii() && c.is_alphanumeric() => word.get_or_insert_default().push(c),
            _ => return None,
        }
    }
    if let (Some(word), Some(segment)) = (word, segments.last_mut()) {
        segment.push(word);
    }
    Some(segments)
}

/// Returns whether a text contains a construct that makes bash evaluate text that the parser treats
/// as data, or end a comment, a here-document or a quotation in an unexpected place.
pub(crate) fn evaluates_later(text: &str) -> bool {
    let bare: String = text.chars().filter(|c| !matches!(c, '\'' | '"' | '\\')).collect();
    EVALUATED_NAMES.iter().any(|name| bare.contains(name))
        || ["${!", "$[", ")#", "@P}"].iter().any(|construct| bare.contains(construct))
        || has_strange_function(&bare)
        || has_expanding_end(&bare)
        || has_comment_in_brackets(text)
        || has_quote_in_parameter(text)
        || (has_arithmetic(&bare) && has_subscript(&bare) && (text.contains("$(") || text.contains(['`', '\\'])))
}

/// Finds `function NAME` whose body is not a group: keywords follow the name.
fn has_strange_function(bare: &str) -> bool {
    let mut words = bare.split([' ', '\t', '\n', ';', '&', '|', '(']).filter(|word| !word.is_empty());
    while let Some(word) = words.next() {
        if word == "function" {
            let _name = words.next();
            if !words.next().is_some_and(|body| body == "{" || body.starts_with(')')) {
                return true;
            }
        }
    }
    false
}

/// Finds a here-document whose delimiter is a word that would expand elsewhere.
fn has_expanding_end(bare: &str) -> bool {
    bare.match_indices("<<").any(|(at, _)| {
        let end = bare[at + 2..].trim_start_matches(['<', '-', ' ', '\t']);
        !bare[at..].starts_with("<<<") && end.starts_with(['$', '`'])
    })
}

/// Finds a `#` after a space inside an open bracket, where it belongs to a subscript.
fn has_comment_in_brackets(text: &str) -> bool {
    let mut open = 0_i32;
    let mut before = ' ';
    for c in text.chars() {
        match c {
            '[' => open += 1,
            ']' => open -= 1,
            '\n' => open = 0,
            '#' if open > 0 && before.is_whitespace() => return true,
            _ => {}
        }
        before = c;
    }
    false
}

/// Finds `${...}` with a quote in it, whose meaning depends on the context.
fn has_quote_in_parameter(text: &str) -> bool {
    let mut rest = text;
    while let Some(at) = rest.find("${") {
        rest = &rest[at + 2..];
        let end = rest.find('}').unwrap_or(rest.len());
        if rest[..end].contains(['\'', '"', '\\']) {
            return true;
        }
    }
    false
}

fn has_arithmetic(bare: &str) -> bool {
    let tests = [" -eq ", " -ne ", " -lt ", " -le ", " -gt ", " -ge "];
    bare.contains("((")
        || has_token(bare, "let")
        || has_token(bare, "-i")
        || tests.iter().any(|test| bare.contains(test))
}

/// Finds a name directly followed by a bracket.
fn has_subscript(bare: &str) -> bool {
    let is_name = |c: char| c.is_ascii_alphanumeric() || c == '_';
    bare.match_indices('[').any(|(at, _)| bare[..at].chars().next_back().is_some_and(is_name))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mentioned_program_counts_except_as_argument_of_a_harmless_one() {
        for text in
            ["echo rm x", "grep 'rm' x; ls", "git commit -m 'rm gone; really'", "cat a | grep rm > rm.txt", "farm x"]
        {
            assert!(!may_mention(text, "rm", &[]), "{text}");
        }
        for text in [
            "xyz rm v",
            "echo a # rm",
            "cat <<E\nrm\nE",
            "for x do rm v; done",
            "echo $(true) rm",
            "sftp -D 'rm v'",
            "echo \"$x\" rm",
            "dc -e '!rm v'",
            "a=(1)#; r\\m v",
            "git -c x=rm log",
            "find . -exec rm v",
        ] {
            assert!(may_mention(text, "rm", &[]), "{text}");
        }
        let push = ["push".to_owned()];
        assert!(!may_mention("sudo git status", "git", &push));
        assert!(may_mention("nosuch git push", "git", &push));
        assert!(may_mention("nosuch git $x", "git", &push));
    }

    #[test]
    fn constructs_that_evaluate_text_are_seen() {
        for text in [
            "x='$(rm v)'; : \"${x@P}\"",
            "read x <<< 'a[$(rm v)]'; ((x))",
            ": ${!x}",
            "read PS4 <<< '$(rm v)'; set -x",
            "BASH_ALIASES[lz]=rm",
            "cat <<$x\n$x\nrm v",
            "cat <<\"$x\"\nrm v",
            "a=(1 2)#; rm v",
            "a[ #]=1; rm v",
            "echo \"${x#'\"'}\"; rm v",
            "function f if rm v; then :; fi",
            "coproc C if rm v; then :; fi",
            ": $[ a[ #] ]",
        ] {
            assert!(evaluates_later(text), "{text}");
        }
        for text in [
            "ls",
            "for i in 1 2; do echo $((i+1)); done",
            "function f { ls; }; f",
            "function f() { ls; }",
            "[ -f x ] && ls # y",
            "echo \"${x:-y}\"",
            "cat <<EOF\n$x\nEOF",
            "if [ $a -eq 1 ]; then ls; fi",
            "echo ${a[1]}",
        ] {
            assert!(!evaluates_later(text), "{text}");
        }
    }
}
