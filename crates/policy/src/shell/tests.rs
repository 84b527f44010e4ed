//! Tests of what the parser finds in shell text.

use super::*;

fn found(text: &str) -> String {
    let script = read(text);
    let word = |word: &Word| if word.expands { format!("{}?", word.text) } else { word.text.clone() };
    let command = |command: &SimpleCommand| command.words.iter().map(word).collect::<Vec<_>>().join(" ");
    let torn = if script.is_incomplete { " (torn)" } else { "" };
    script.commands.iter().map(command).collect::<Vec<_>>().join(" | ") + torn
}

#[test]
fn commands_are_found_wherever_they_stand() {
    let cases = [
        ("ls -la", "ls -la"),
        ("a; b && c || d & e\nf", "a | b | c | d | e | f"),
        ("a | b |& c", "a | b | c"),
        ("(a; b) && { c; }", "a | b | c"),
        ("if a; then b; elif c; then d; else e; fi", "a | b | c | d | e | fi"),
        ("while ! a; do b; done", "a | b | done"),
        ("for x in 1 2; do a $x; done", "for x in 1 2 | a ? | done"),
        ("f() { a; }; function g { b; }", "f | a | function g | b"),
        ("case x in a) b;; (c|d) e;; esac", "case x in a | b | c | d | e | esac"),
        ("echo $(case x in a) b;; esac) c", "case x in a | b | esac | echo ? c"),
        ("echo \"$(if a; then case x in b) c;; esac; fi)\" d", "a | case x in b | c | esac | fi | echo ? d"),
        ("echo $(a $(b)) `c \\`d\\``", "b | a ? | d | c ? | echo ? ?"),
        ("echo \"${x:-$(a)}\" \"`b`\"", "a | b | echo ? ?"),
        ("diff <(a) >(b)", "a | b | diff ? ?"),
        ("echo $((1 << 2)) x", "1 | echo ? x"),
        ("((a <<EOF\n)); b", "a | b"),
        ("a >out 2>&1 <in b", "a b"),
        (">out a", "a"),
        ("2>/dev/null a &>all b", "a b"),
        ("a # b ; c\nd", "a | d"),
        ("a <<EOF\nb\n$(c)\nEOF\nd", "a | c | d"),
        ("a <<'EOF'\n$(b)\nEOF\nc", "a | c"),
        ("a <<-E x\n\tb\n\tE\nc", "a x | c"),
        ("a <<< b", "a"),
        ("X=1 Y=$(a) b", "a | X=1 Y=? b"),
        ("a=(b c)", "a= | b c"),
        ("", ""),
    ];
    for (text, expected) in cases {
        assert_eq!(found(text), expected, "{text}");
    }
}

#[test]
fn quotes_are_removed_and_expansions_are_marked() {
    let cases = [
        (r"r\m 'r'm r''m ", "rm rm rm"),
        ("\"rm\" \"a $b c\" 'a $b'", "rm a  c? a $b"),
        ("r\\\nm", "rm"),
        ("$X rm$IFS-rf ${x} $1 $@ $", "? rm-rf? ? ? ? $"),
        ("$'\\x72m' $\"rm\" $'a\\0b' $'\\u00e9'", "rm rm? ab? ?"),
        ("/bin/r? *.rs [r]m {rm,x} {} { a", "/bin/r?? *.rs? [r]m? {rm,x}? {}? | a"),
        (r#"echo "a \" b \x" \"c"#, r#"echo a " b \x "c"#),
    ];
    for (text, expected) in cases {
        assert_eq!(found(text), expected, "{text}");
    }
}

#[test]
fn incomplete_text_is_marked_and_nesting_is_limited() {
    for text in ["a 'b", "a \"b", "a $(b", "a `b", "(a", "a ${b", "a $'b"] {
        assert!(read(text).is_incomplete, "{text}");
    }
    for piece in ["$(", "${", "\"${", "(", "`\\`", "<("] {
        assert!(read(&piece.repeat(20_000)).is_incomplete, "{piece}");
    }
}

#[test]
fn programs_behind_other_programs_are_found() {
    let runs = |command: &str, program: &str| {
        programs(command).calls.iter().any(|words| programs::base(&words[0].text) == program)
    };
    assert!(runs("sudo -u root env A=1 timeout -s KILL 5 nice rm x", "rm"));
    assert!(runs("find . -name x -exec sh -c 'cat {}; rm {}' \\;", "rm"));
    assert!(runs("\\time -o log rm x", "rm") && runs("'time' -o log rm x", "rm") && runs("time -p rm x", "rm"));
    assert!(!runs("timeout 5 grep rm file", "rm"));
    assert!(!runs("echo rm", "rm"));
}

#[test]
fn nested_wrappers_do_not_multiply_the_work() {
    for piece in ["sudo -a ", "eval -a ", "eval -a '#' ", "find -exec ", "watch -a ", "env -S env "] {
        let found = programs(&piece.repeat(100_000 / piece.len()));
        let kept: usize = found.calls.iter().flatten().map(|word| size_of::<Word>() + word.text.len()).sum();
        assert!(kept < 32 << 20, "{piece}: {kept}");
    }
    assert!(programs(&"sudo -a ".repeat(12_000)).hides_some);
    assert!(!programs("sudo -u root ls").hides_some);
}
