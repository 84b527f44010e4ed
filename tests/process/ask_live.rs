//! `ask` at a terminal while a turn runs: progress, input, status, lists to choose from,
//! attachments, and terminals of other kinds and sizes.

use std::fs;

use rustix::process::Signal;
use serde_json::{Value, json};
use testkit::answers::{AnswerPart, Dialect, ModelAnswer};
use testkit::provider::{Action, Reply, Server};

use crate::harness::{Home, Terminal, pause, signal, until};

const CTRL_C: &str = "\u{3}";

/// A command that runs until the file `go` exists.
const WAITS: &str = "run the command: echo tick; touch began; until [ -e go ]; do sleep 0.05; done; echo tock";

fn ask(home: &Home, args: &[&str]) -> Terminal {
    Terminal::start(&home.acpd(&[&["ask"], args].concat()))
}

fn began(home: &Home) {
    until("the command to run", || home.work().join("began").exists().then_some(()));
}

fn go(home: &Home) {
    fs::write(home.work().join("go"), "").unwrap();
}

/// The texts of the prompts in the log of the only session, and whether each joined a running turn.
fn prompts(home: &Home) -> Vec<(String, bool)> {
    let sessions = home.json(&["ctl", "sessions", "--all", "--json"]);
    let log = home.stdout(&["ctl", "export", sessions["sessions"][0]["sessionId"].as_str().unwrap()]);
    let events = log.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    let prompts = events.filter(|event| event["event"] == "user_message");
    let text =
        |event: &Value| event["content"].as_array().unwrap().last().unwrap()["text"].as_str().unwrap().to_owned();
    prompts.map(|event| (text(&event), !event["steering"].is_null())).collect()
}

fn at_prompt(terminal: &Terminal) {
    terminal.shows_that("the next prompt", |screen| screen.ends_with("\n>"));
}

#[test]
fn progress_and_the_output_of_a_running_command_are_shown_and_gone_afterwards() {
    let home = Home::new();
    let mut terminal = ask(&home, &["--allow", WAITS]);
    let screen =
        terminal.shows_that("the progress", |screen| screen.contains("  │ tick") && screen.contains("running "));
    assert!(screen.contains("Ctrl-C cancels") && screen.contains("rehearsal · full"), "{screen}");
    assert!(!terminal.is_in_usual_mode(), "what is typed is not echoed");
    go(&home);
    assert_eq!(terminal.wait().code(), Some(0));
    let screen = terminal.screen();
    assert!(screen.contains("│ tock") && !screen.contains("Ctrl-C cancels"), "{screen}");
    assert!(terminal.is_in_usual_mode());
}

#[test]
fn a_line_typed_during_a_turn_joins_it_and_the_rest_becomes_the_next_prompt() {
    let home = Home::new();
    let mut terminal = ask(&home, &["--allow"]);
    terminal.shows("Type /help for commands");
    terminal.type_in(&format!("{WAITS}\r"));
    began(&home);
    terminal.type_in("list the filez\u{7f}s");
    terminal.shows("» list the files");
    terminal.type_in("\r");
    terminal.shows("\n> list the files");
    terminal.type_in("/cost\r");
    terminal.shows("after this turn: /cost");
    terminal.type_in("half a");
    terminal.shows("» half a");
    go(&home);
    terminal.shows(" tokens in, ");
    let screen = terminal.shows_that("the rest as a prompt", |screen| screen.ends_with("\n> half a"));
    assert!(screen.contains("rehearsal · full · "), "the status is shown: {screen}");
    terminal.type_in("\u{15}exit\r");
    assert_eq!(terminal.wait().code(), Some(0));
    let prompts = prompts(&home);
    assert_eq!(prompts[1..], [("list the files".to_owned(), true)], "{prompts:?}");
}

#[test]
fn the_letters_of_a_word_that_was_being_typed_do_not_answer_a_question() {
    let home = Home::new();
    let mut terminal = ask(&home, &[&format!("{WAITS}, then run the command: touch made")]);
    terminal.shows("[y]es");
    terminal.type_in("y");
    began(&home);
    terminal.type_in("wh");
    terminal.shows("» wh");
    go(&home);
    terminal.shows("? Allow: touch made");
    terminal.type_in("y");
    // Ctrl-C discards what the program has not read yet.
    terminal.shows("» why");
    terminal.type_in(CTRL_C);
    assert_eq!(terminal.wait().code(), Some(130));
    assert!(!home.work().join("made").exists());
    assert!(terminal.screen().contains("not sent: why"), "{}", terminal.screen());
}

#[test]
fn pasted_text_answers_no_question_and_is_sent_as_a_whole() {
    let home = Home::new();
    let mut terminal = ask(&home, &["run the command: touch made"]);
    terminal.shows("[y]es");
    terminal.type_in("\u{1b}[200~yes,\rlist the files\u{1b}[201~");
    terminal.shows("list the files");
    terminal.shows("Enter sends the line that you were typing");
    terminal.type_in("\r");
    terminal.shows("> yes,\n  list the files");
    assert!(!home.work().join("made").exists());
    // The keys answer the question again, so they are shown again.
    let after = |seen: &str| seen.rsplit_once("> yes,\n  list the files").map(|(_, after)| after.contains("[y]es"));
    terminal.shows_that("the keys below the line", |seen| after(seen) == Some(true));
    terminal.type_in("n");
    assert_eq!(terminal.wait().code(), Some(0));
    assert!(!home.work().join("made").exists());
    assert_eq!(prompts(&home)[1], ("yes,\nlist the files".to_owned(), true));
}

#[test]
fn pasted_lines_take_one_row_of_the_screen_during_a_turn() {
    let home = Home::new();
    let mut terminal = ask(&home, &["--allow", WAITS]);
    began(&home);
    terminal.shows("Ctrl-C cancels");
    terminal.type_in("\u{1b}[200~one\rtwo\rthree\u{1b}[201~");
    terminal.shows("» one ⏎ two ⏎ three");
    terminal.resize(60, 24);
    terminal.type_in("\r");
    terminal.shows("> one\n  two\n  three");
    go(&home);
    terminal.wait();
    assert!(!terminal.screen().contains('»'), "no row is left behind: {}", terminal.screen());
    assert_eq!(prompts(&home)[1], ("one\ntwo\nthree".to_owned(), true));
}

#[test]
fn leaving_a_turn_says_that_the_daemon_goes_on() {
    let home = Home::new();
    let mut terminal = ask(&home, &["--allow", "run the command: trap '' INT TERM; touch began; sleep 100; sleep 100"]);
    began(&home);
    terminal.type_in(CTRL_C);
    terminal.shows("press Ctrl-C again to leave at once");
    terminal.type_in(CTRL_C);
    assert_eq!(terminal.wait().code(), Some(130));
    assert!(
        terminal.screen().contains("the daemon is still ending the turn; `acpd ask --session "),
        "{}",
        terminal.screen()
    );
}

#[test]
fn leaving_a_conversation_says_which_lines_were_not_sent() {
    let home = Home::new();
    let mut terminal = ask(&home, &["--allow"]);
    terminal.shows("Type /help for commands");
    terminal.type_in("run the command: trap '' INT TERM; touch began; sleep 100; sleep 100\r");
    began(&home);
    terminal.type_in("/cost\r");
    terminal.shows("after this turn: /cost");
    terminal.type_in("half a line");
    terminal.shows("» half a line");
    terminal.type_in(CTRL_C);
    terminal.shows("press Ctrl-C again to leave at once");
    terminal.type_in(CTRL_C);
    assert_eq!(terminal.wait().code(), Some(130));
    let screen = terminal.screen();
    assert!(screen.contains("not sent: /cost\nnot sent: half a line"), "{screen}");
}

#[test]
fn a_turn_goes_on_when_its_terminal_is_closed() {
    let home = Home::new();
    let mut terminal = ask(&home, &[&format!("{WAITS}, then run the command: touch made")]);
    terminal.shows("[y]es");
    terminal.type_in("y");
    began(&home);
    signal(terminal.id(), Signal::HUP);
    assert_eq!(terminal.wait().code(), Some(130));
    go(&home);
    let session = until("the second question", || {
        let found = home.json(&["ctl", "sessions", "--json"])["sessions"][0].clone();
        (found["questions"][0]["title"] == "touch made").then(|| found["id"].as_str().unwrap().to_owned())
    });
    home.stdout(&["ctl", "allow", &session]);
    until("the rest of the turn", || home.work().join("made").exists().then_some(()));
}

#[test]
fn a_turn_that_was_stopped_in_the_shell_takes_its_terminal_again() {
    let home = Home::new();
    let mut terminal = ask(&home, &["--allow", WAITS]);
    began(&home);
    terminal.shows("Ctrl-C cancels");
    pause(terminal.id());
    terminal.set_usual_mode();
    signal(terminal.id(), Signal::CONT);
    until("the terminal to be taken", || (!terminal.is_in_usual_mode()).then_some(()));
    terminal.type_in("half");
    terminal.shows("» half");
    go(&home);
    assert_eq!(terminal.wait().code(), Some(0));
    assert!(terminal.is_in_usual_mode() && terminal.screen().contains("not sent: half"), "{}", terminal.screen());
}

#[test]
fn settings_and_sessions_are_chosen_from_lists_by_a_few_letters() {
    let home = Home::new();
    fs::write(home.work().join("findme.txt"), "x").unwrap();
    home.stdout(&["ask", "list the files"]);
    let mut terminal = ask(&home, &[]);
    terminal.shows("Type /help for commands");
    terminal.type_in("/mode\r");
    terminal.shows("Choose the mode  5 of 5");
    terminal.type_in("rdonly");
    terminal.shows("Choose the mode  1 of 5");
    terminal.type_in("\r");
    terminal.shows("the mode is read-only now");
    at_prompt(&terminal);
    terminal.type_in("/model reharsal\r");
    terminal.shows("did you mean `rehearsal`?");
    at_prompt(&terminal);
    terminal.type_in("/search FINDME\r");
    terminal.shows("agent: ");
    at_prompt(&terminal);
    terminal.type_in("/resume\r");
    terminal.shows("Resume  1 of 1");
    terminal.shows("▸ list the files");
    terminal.type_in("\r");
    let screen = terminal.shows_that("the last exchange", |screen| {
        let after = screen.rsplit_once("Continuing: list the files\n> list the files\n").map(|(_, after)| after);
        after.is_some_and(|after| after.contains("findme.txt") && after.ends_with("\n>"))
    });
    assert!(!screen.contains("(no title)"), "{screen}");
    terminal.type_in("/new\r");
    at_prompt(&terminal);
    terminal.type_in("exit\r");
    assert_eq!(terminal.wait().code(), Some(0));

    let mut again = ask(&home, &["--resume"]);
    again.shows("▸ list the files");
    again.type_in("\r");
    again.shows("Continuing: list the files");
    again.type_in("exit\r");
    assert_eq!(again.wait().code(), Some(0));
    let mut left = ask(&home, &["--resume"]);
    left.shows("▸ list the files");
    left.type_in("\u{1b}");
    assert_eq!(left.wait().code(), Some(130));
}

#[test]
fn the_changes_of_a_session_are_shown_as_a_diff_and_undone() {
    let home = Home::new();
    fs::write(home.work().join("a.txt"), "hello\n").unwrap();
    let mut terminal = ask(&home, &["--allow"]);
    terminal.shows("Type /help for commands");
    for (old, new) in [("hello", "goodbye"), ("goodbye", "farewell")] {
        terminal.type_in(&format!("replace {old} with {new} in a.txt\r"));
        terminal.shows(&format!("Replaced {old} with {new}"));
        at_prompt(&terminal);
    }
    terminal.type_in("/diff\r");
    terminal.shows("     1 -hello\n     1 +farewell");
    at_prompt(&terminal);
    // The second line is typed before the first is carried out.
    terminal.type_in("/undo\rexit\r");
    assert_eq!(terminal.wait().code(), Some(0));
    assert_eq!(fs::read_to_string(home.work().join("a.txt")).unwrap(), "goodbye\n");
}

#[test]
fn files_are_attached_by_an_at_sign_an_option_and_with_completion() {
    let home = Home::new();
    fs::write(home.work().join("notes.txt"), "the contents").unwrap();
    fs::write(home.work().join("shot.png"), [0x89, b'P', b'N', b'G']).unwrap();
    let mut terminal = ask(&home, &[]);
    terminal.shows("Type /help for commands");
    terminal.type_in("list the files of @no\t");
    terminal.shows("@notes.txt");
    terminal.type_in("\r");
    at_prompt(&terminal);
    terminal.type_in("exit\r");
    assert_eq!(terminal.wait().code(), Some(0));
    home.run(&["ask", "--file", "notes.txt", "--image", "shot.png", "list the files"]);
    for session in home.json(&["ctl", "sessions", "--all", "--json"])["sessions"].as_array().unwrap() {
        let title = session["title"].as_str().unwrap();
        assert!(title.starts_with("list the files"), "the title is not of an attachment: {title}");
        let log = home.stdout(&["ctl", "export", session["sessionId"].as_str().unwrap()]);
        let prompt = log.lines().find(|line| line.contains("\"user_message\"")).unwrap();
        assert!(prompt.contains("the contents"), "{prompt}");
    }
    let unnamed = home.run(&["ask", "list the files of @missing.txt"]);
    assert!(String::from_utf8(unnamed.stderr).unwrap().contains("`@missing.txt` names no file and is sent as text"));
    let wrong = home.run(&["ask", "--image", "notes.txt", "hello"]);
    assert!(String::from_utf8(wrong.stderr).unwrap().contains("is not a PNG"));
}

/// A home whose model answers with this text.
fn answering(text: &'static str) -> (Home, Server) {
    answering_with(ModelAnswer::text(text))
}

fn answering_with(answer: ModelAnswer) -> (Home, Server) {
    let server = Server::with(move |_, _| Reply::stream(&[&answer.sse(Dialect::Chat)]));
    (home_of(&server), server)
}

fn home_of(server: &Server) -> Home {
    let home = Home::new();
    home.configure(&format!(
        "[models]\ndefault = \"fake/fake\"\n[models.local]\nprobe = false\n[models.providers.fake]\nkind = \"openai\"\n\
         base_url = \"{}\"\n[[models.providers.fake.models]]\nid = \"fake\"\nwindow = 100000\n",
        server.address
    ));
    home
}

#[test]
fn a_long_thought_is_folded_in_a_conversation_and_shown_on_demand() {
    let thought: String = (1..=9).map(|line| format!("thought {line}\n")).collect();
    let (home, _server) =
        answering_with(ModelAnswer::new(vec![AnswerPart::thought(thought), AnswerPart::text("Done.")]));
    let mut terminal = ask(&home, &[]);
    at_prompt(&terminal);
    terminal.type_in("hello\r");
    let screen = terminal.shows("… 6 more lines of thought; /thoughts shows them");
    assert!(screen.contains("thought 3\n") && !screen.contains("thought 5"), "{screen}");
    at_prompt(&terminal);
    terminal.type_in("/thoughts\r");
    terminal.shows("thought 8\nthought 9\n");
    terminal.type_in("/thoughts on\r");
    terminal.shows("thoughts are shown as a whole now");
    terminal.type_in("exit\r");
    assert_eq!(terminal.wait().code(), Some(0));
    // A single prompt cannot be followed by another one that asks for the rest.
    let mut terminal = ask(&home, &["hello"]);
    assert_eq!(terminal.wait().code(), Some(0));
    assert!(terminal.screen().contains("thought 8\nthought 9\nDone."), "{}", terminal.screen());
}

const ANSWER: &str = "# Title\n\nA *word* and a [link](https://a.example/).\n\n| name | what |\n|---|---|\n| one | first |\n\n\
                      ```rust\nfn main() {}\n```\n";

#[test]
fn an_answer_is_rendered_at_a_terminal_and_unchanged_in_a_pipe() {
    let (home, _server) = answering(ANSWER);
    let mut terminal = ask(&home, &["hello"]);
    assert_eq!(terminal.wait().code(), Some(0));
    let screen = terminal.screen();
    for line in ["Title", "A word and a link (https://a.example/).", "name │ what", "─────┼──────", "one  │ first"]
    {
        assert!(screen.contains(line), "`{line}` is missing:\n{screen}");
    }
    assert!(terminal.seen().contains("\u{1b}[35mfn\u{1b}[0m"), "code has colours: {:?}", terminal.seen());
    assert_eq!(home.stdout(&["ask", "hello"]), ANSWER);
    for columns in [40, 200] {
        let mut terminal = ask(&home, &["hello"]);
        terminal.resize(columns, 30);
        assert_eq!(terminal.wait().code(), Some(0));
        assert!(terminal.screen().contains("one  │ first"), "{}", terminal.screen());
    }
}

#[test]
fn a_line_that_is_sent_during_an_answer_does_not_break_it() {
    let (open, gate) = tokio::sync::watch::channel(false);
    let piece =
        |text: &str| format!("data: {}\n\n", json!({ "choices": [{ "index": 0, "delta": { "content": text } }] }));
    let (half, rest) = (piece("```sh\necho one tw"), piece("o\n```\n") + "data: [DONE]\n\n");
    let reply = Reply::begun(&[half.as_bytes()]).then(Action::UntilOpen(gate)).then_piece(rest.as_bytes());
    let after = ModelAnswer::text("Done.").sse(Dialect::Chat);
    let server = Server::script(vec![reply.then(Action::Write(b"0\r\n\r\n".to_vec())), Reply::stream(&[&after])]);
    let home = home_of(&server);
    let mut terminal = ask(&home, &["hello"]);
    terminal.shows("echo one tw");
    terminal.type_in("and then\r");
    let waits = |screen: &str| screen.contains("\necho one tw\n> and then\n") && screen.contains("Ctrl-C cancels");
    terminal.shows_that("the line below the answer", waits);
    open.send(true).unwrap();
    assert_eq!(terminal.wait().code(), Some(0));
    let screen = terminal.screen();
    assert!(screen.contains("```sh\necho one two\n```\n> and then\nDone."), "{screen}");
}

#[test]
fn the_end_of_a_long_line_of_output_is_marked() {
    let home = Home::new();
    let mut terminal = ask(&home, &["--allow", "run the command: printf '%75s? Allow: ls\\n' x"]);
    assert_eq!(terminal.wait().code(), Some(0));
    let screen = terminal.screen();
    assert!(screen.contains("x\n  ┊ ? Allow: ls\n"), "{screen}");
}

#[test]
fn a_failure_is_wrapped_between_words() {
    let home = Home::new();
    let path = format!("{}.txt", "x".repeat(64));
    let mut terminal = ask(&home, &[&format!("read {path}")]);
    assert_eq!(terminal.wait().code(), Some(0));
    let screen = terminal.screen();
    assert!(screen.contains(&format!("  ✗ {path} does\n    not exist\n")), "{screen}");
}

#[test]
fn a_dumb_terminal_gets_text_alone_and_options_decide_about_colours() {
    let (home, _server) = answering(ANSWER);
    let mut dumb = Terminal::start(home.acpd(&["ask", "hello"]).env("TERM", "dumb"));
    assert_eq!(dumb.wait().code(), Some(0));
    assert!(!dumb.seen().contains('\u{1b}') && dumb.screen().contains("| one | first |"), "{:?}", dumb.seen());
    let mut never = ask(&home, &["--color", "never", "hello"]);
    assert_eq!(never.wait().code(), Some(0));
    assert!(!has_colours(&never.seen()), "{:?}", never.seen());
    let screen = never.screen();
    assert!(screen.contains("# Title\n\nA *word* and a link") && screen.contains("one  │ first"), "{screen}");
    let page = |when: &str| home.stdout(&["--color", when, "ctl", "sessions", "--all"]);
    assert!(has_colours(&page("always")) && !has_colours(&page("auto")));
}

#[test]
fn a_dumb_terminal_keeps_what_is_typed_during_a_turn_out_of_the_answer() {
    let home = Home::new();
    let mut dumb = Terminal::start(home.acpd(&["ask", "--allow"]).env("TERM", "dumb"));
    dumb.shows("Type /help for commands");
    dumb.type_in(&format!("{WAITS}\r"));
    began(&home);
    assert!(!dumb.echoes(), "what is typed is not written into the answer");
    dumb.type_in("why\r");
    dumb.shows("\n> why");
    dumb.type_in("list");
    go(&home);
    // What was not sent is part of the next line.
    dumb.shows("\n> list");
    dumb.type_in(" the files\r");
    until("the next prompt", || prompts(&home).contains(&("list the files".to_owned(), false)).then_some(()));
    assert_eq!(prompts(&home)[1], ("why".to_owned(), true));
    assert!(!dumb.seen().contains('\u{1b}'), "{:?}", dumb.seen());
}

fn has_colours(text: &str) -> bool {
    let mut rest = text;
    while let Some((_, after)) = rest.split_once("\u{1b}[") {
        let end = after.find(|letter: char| letter.is_ascii_alphabetic()).unwrap_or(after.len());
        if after[end..].starts_with('m') {
            return true;
        }
        rest = after;
    }
    false
}

#[test]
fn the_history_is_searched_from_the_command_line() {
    let home = Home::new();
    fs::write(home.work().join("findme.txt"), "x").unwrap();
    home.stdout(&["ask", "list the files"]);
    let found = home.json(&["ctl", "search", "FindMe", "--json"]);
    assert_eq!(found["found"][0]["who"], "agent");
    assert!(found["found"][0]["text"].as_str().unwrap().contains("findme.txt"), "{found}");
    assert!(home.stdout(&["ctl", "search", "list the"]).contains("user"));
    assert_eq!(home.stdout(&["ctl", "search", "nobody wrote this"]), "nothing found\n");
}
