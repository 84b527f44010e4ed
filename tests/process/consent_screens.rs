//! The table "What each screen shows" of docs/ctl.md: every kind of call that asks, on every screen
//! on which it can be allowed.

use std::fs;
use std::process::Command;

use serde_json::{Value, json};
use testkit::answers::{AnswerPart, Dialect, ModelAnswer};
use testkit::provider::{Reply, Server};

use crate::harness::{Home, Peer, Terminal};

/// An MCP server with one tool.
const SERVER: &str = r##"
while IFS= read -r line; do
  id=${line#*\"id\":}; id=${id%%[,\}]*}
  case "$line" in
    *'"initialize"'*) result='{"protocolVersion":"2025-06-18","capabilities":{"tools":{}},"serverInfo":{"name":"files","version":"1"}}' ;;
    *'"tools/list"'*) result='{"tools":[{"name":"write","inputSchema":{"type":"object"}}]}' ;;
    *) continue ;;
  esac
  printf '{"jsonrpc":"2.0","id":%s,"result":%s}\n' "$id" "$result"
done
"##;

/// A row of the table: its name there, the call, and every line that a person must see.
struct Case {
    name: &'static str,
    call: AnswerPart,
    lines: Vec<String>,
}

impl Case {
    fn new(name: &'static str, tool: &'static str, input: Value, lines: &[&str]) -> Self {
        Self { name, call: AnswerPart::Call(tool, input), lines: lines.iter().map(|line| (*line).to_owned()).collect() }
    }
}

fn cases() -> Vec<Case> {
    let long: Vec<String> = (0..125).map(|number| format!("echo {number:04} {}", "x".repeat(31))).collect();
    assert!(long.join("\n").len() > 5000);
    let task = "Look at every file.\nThen remove the old ones.";
    let fields = ["\"path\": \"notes.txt\"", "\"force\": true", "\"text\": \"one\\ntwo\""];
    vec![
        Case::new("a command of several lines", "bash", json!({ "command": "ls\ntouch made" }), &["ls", "touch made"]),
        Case {
            name: "a command of 5 KB",
            call: AnswerPart::Call("bash", json!({ "command": long.join("\n") })),
            lines: long.clone(),
        },
        Case::new(
            "a call of an MCP tool",
            "mcp__files__write",
            json!({ "path": "notes.txt", "mode": { "force": true }, "text": "one\ntwo" }),
            &fields,
        ),
        Case::new(
            "a sub-agent",
            "agent",
            json!({ "task": task, "description": "Tidy up", "tools": "all" }),
            &["Look at every file.", "Then remove the old ones."],
        ),
        Case::new(
            "an edit",
            "write_file",
            json!({ "path": "new.txt", "content": "one\ntwo\n" }),
            &["new.txt", "   1 +one", "   2 +two"],
        ),
        Case::new(
            "a page",
            "web_fetch",
            json!({ "url": "https://a.example/?q=secret" }),
            &["https://a.example/?q=secret"],
        ),
    ]
}

/// A home whose model makes this call for every prompt, and is done when the call has ended.
fn home(case: &Case) -> (Home, Server) {
    let call = ModelAnswer::new(vec![case.call.clone()]);
    let server = Server::with(move |request, _| {
        let messages = request.json()["messages"].as_array().cloned().unwrap_or_default();
        let is_answered = messages.last().is_some_and(|message| message["role"] == "tool");
        let answer = if is_answered { ModelAnswer::text("Done.") } else { call.clone() };
        Reply::stream(&[&answer.sse(Dialect::Chat)])
    });
    let home = Home::new();
    home.configure(&format!(
        "[permissions]\nask = [\"web_fetch\", \"agent\"]\n[models]\ndefault = \"fake/fake\"\n[models.local]\n\
         probe = false\n[models.providers.fake]\nkind = \"openai\"\nbase_url = \"{}\"\n\
         [[models.providers.fake.models]]\nid = \"fake\"\nwindow = 100000\n\
         [mcp.servers.files]\ncommand = \"sh\"\nargs = [\"server.sh\"]\n",
        server.address
    ));
    fs::write(home.work().join("server.sh"), SERVER).unwrap();
    (home, server)
}

#[track_caller]
fn shows_all(screen: &str, shown: &str, case: &Case) {
    for line in &case.lines {
        assert!(shown.contains(line.as_str()), "{screen} does not show `{line}` of {}:\n{shown}", case.name);
    }
}

/// Everything that `ctl top` shows of the question of its only session, page by page.
fn read_in_top(home: &Home) -> String {
    let mut top = Terminal::start(&home.acpd(&["ctl", "top"]));
    top.shows("asks: ");
    top.type_in("v");
    let mut shown = top.shows("space scroll");
    loop {
        let before = top.screen();
        if !before.contains(" more rows)") {
            break;
        }
        top.type_in(" ");
        shown.push_str(&top.shows_that("the next page", |screen| screen != before && screen.contains("space scroll")));
    }
    top.type_in("d");
    top.shows("denied: ");
    top.type_in("q");
    top.wait();
    shown
}

fn at_a_terminal(command: &Command, until: &str) -> String {
    let terminal = Terminal::start(command);
    terminal.until_seen(until);
    terminal.seen()
}

fn check(case: &Case) {
    let (home, _server) = home(case);
    let mut bridge: Peer = home.bridge();
    let session = bridge.open(&home.work());
    let prompt = bridge.start_prompt(&session, "do it");
    bridge.question();
    let page = home.stdout(&["ctl", "session", &session]);
    shows_all("ctl session", &page, case);
    let tail = at_a_terminal(&home.acpd(&["ctl", "tail", &session]), "answer with `acpd ctl allow");
    shows_all("ctl tail", &tail, case);
    // In JSON the same texts are values: the preview of the question, or its arguments.
    for args in [&["ctl", "sessions", "--json"][..], &["ctl", "session", &session, "--json"]] {
        let found = home.json(args);
        let question = found["sessions"][0]["questions"].get(0).or_else(|| found["card"]["questions"].get(0)).unwrap();
        assert_eq!(question["proposal"].get("cut"), None, "{args:?} cuts {}", case.name);
        let AnswerPart::Call(tool, input) = &case.call else { unreachable!("every case is a call") };
        assert_eq!((&question["proposal"]["tool"], &question["proposal"]["input"]), (&json!(tool), input));
    }
    shows_all("ctl top", &read_in_top(&home), case);
    bridge.answer(prompt);

    let prompt = bridge.start_prompt(&session, "do it again");
    bridge.question();
    shows_all("ctl deny", &home.stdout(&["ctl", "deny"]), case);
    bridge.answer(prompt);
    drop(bridge);
    shows_all("ask", &at_a_terminal(&home.acpd(&["ask", "do it"]), "[y]es"), case);
    let asked = String::from_utf8(home.run(&["ask", "--json", "do it"]).stdout).unwrap();
    let question = asked.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    let mut question = question.filter(|line| line["method"] == "session/request_permission");
    let AnswerPart::Call(_, input) = &case.call else { unreachable!("every case is a call") };
    assert_eq!(&question.next().unwrap()["params"]["toolCall"]["rawInput"], input);
}

#[test]
fn every_screen_shows_the_whole_of_what_it_asks_about() {
    let cases = cases();
    let page = include_str!("../../docs/ctl.md");
    let (_, table) = page.split_once("### What each screen shows").expect("the table is in docs/ctl.md");
    let rows = table.lines().skip_while(|line| !line.starts_with('|')).take_while(|line| line.starts_with('|'));
    let named: Vec<&str> = rows.skip(2).filter_map(|row| row.split('|').nth(1)).map(str::trim).collect();
    assert_eq!(named, cases.iter().map(|case| case.name).collect::<Vec<_>>());
    cases.iter().for_each(check);
}

#[test]
fn every_key_of_an_inquiry_is_shown_at_any_width() {
    let choices = ["Rewrite the parser with a table of states", "Keep it\u{1b}[2J"];
    let input = json!({ "question": "Which way?", "choices": choices, "free_text": true });
    let (home, _server) = home(&Case::new("an inquiry", "ask_user", input, &[]));
    let mut terminal = Terminal::start(&home.acpd(&["ask", "do it"]));
    terminal.shows("[1] Rewrite");
    for columns in [80, 40, 24] {
        terminal.resize(columns, 40);
        let keys = ["[1] Rewrite", "[2] Keep it", "[t]ype", "[n] Decline", "[r]eason", "[?]"];
        terminal.shows_that("every key", |screen| keys.iter().all(|key| screen.contains(key)));
    }
    terminal.type_in("2");
    assert_eq!(terminal.wait().code(), Some(0));
    assert!(!terminal.seen().contains("\u{1b}[2J"), "a label is escaped: {:?}", terminal.seen());
}

#[test]
fn ctl_answers_an_inquiry_with_a_choice_or_in_words() {
    let input = json!({ "question": "Which colour?", "choices": ["Red", "Blue"], "free_text": true });
    let case = Case::new("an inquiry", "ask_user", input, &["Which colour?", "Red", "Blue"]);
    let (home, server) = home(&case);
    let mut bridge = home.bridge();
    let session = bridge.open(&home.work());
    for (answer, expected) in [
        (["--choice", "2"], "The user chose: Blue"),
        (["--choice", "red"], "The user chose: Red"),
        (["--text", "Green"], "The user answered: Green"),
    ] {
        let prompt = bridge.start_prompt(&session, "paint it");
        bridge.question();
        let wrong = home.run(&["ctl", "answer", &session, "--choice", "Pink"]);
        assert!(!wrong.status.success());
        let refused = home.run(&["ctl", "allow", &session]);
        assert!(String::from_utf8_lossy(&refused.stderr).contains("ctl answer"), "{refused:?}");
        let said = home.stdout(&["ctl", "answer", &session, answer[0], answer[1]]);
        shows_all("ctl answer", &said, &case);
        assert!(said.contains("answered: "), "{said}");
        assert_eq!(bridge.answer(prompt)["result"]["stopReason"], "end_turn");
        let last = server.requests().last().map(|request| request.body.clone()).unwrap_or_default();
        assert!(last.contains(expected), "{expected}: {last}");
    }
}

#[test]
fn top_chooses_an_answer_to_an_inquiry_by_its_number() {
    let input = json!({ "question": "Which colour?", "choices": ["Red", "Blue"] });
    let case = Case::new("an inquiry", "ask_user", input, &["Which colour?", "Red", "Blue"]);
    let (home, server) = home(&case);
    let mut bridge = home.bridge();
    let session = bridge.open(&home.work());
    let prompt = bridge.start_prompt(&session, "paint it");
    bridge.question();
    let mut top = Terminal::start(&home.acpd(&["ctl", "top"]));
    top.shows("asks: ");
    top.type_in("v");
    top.shows("1-9 choose");
    top.type_in("a");
    top.shows("choose with a number: 1 Red  2 Blue");
    top.type_in("3");
    top.shows("choose with a number");
    top.type_in("2");
    top.shows("answered: Blue");
    top.type_in("q");
    top.wait();
    assert_eq!(bridge.answer(prompt)["result"]["stopReason"], "end_turn");
    let last = server.requests().last().map(|request| request.body.clone()).unwrap_or_default();
    assert!(last.contains("The user chose: Blue"), "{last}");
}
