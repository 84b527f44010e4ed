//! Conversations in which something is not allowed, is not offered, or fails.

use super::*;

fn denied(tool: &str, input: &Value) -> Outcome {
    match tool {
        "write_file" | "edit_file" | "bash" => Outcome::denied(),
        _ => works(tool, input),
    }
}

#[tokio::test]
async fn refused_calls_are_reported_and_the_others_run() {
    play(
        "write a.txt with Hi\nrun ls\nread b.txt",
        ALL,
        denied,
        expect![[r#"
            (thought) I understand 3 directions:
            1. Write `a.txt`
            2. Run `ls`
            3. Read `b.txt`
            > plan: in_progress: Write `a.txt`
            > plan: pending: Run `ls`
            > plan: pending: Read `b.txt`
            > write_file {"path":"a.txt","content":"Hi\n"}
            You did not allow it, so nothing was written.
            > plan: pending: Write `a.txt`
            > plan: in_progress: Run `ls`
            > plan: pending: Read `b.txt`
            > bash {"command":"ls"}
            You did not allow it, so nothing was run.
            > plan: pending: Write `a.txt`
            > plan: pending: Run `ls`
            > plan: in_progress: Read `b.txt`
            > read_file {"path":"b.txt"}
            > plan: pending: Write `a.txt`
            > plan: pending: Run `ls`
            > plan: completed: Read `b.txt`
            This is `b.txt`:

            ```
                 1	Hello
                 2	there
            ```
            (notice) `rehearsal` answered, a small program that follows plain directions. No language model is configured.
        "#]],
    )
    .await;
}

#[tokio::test]
async fn failures_are_reported_with_their_reasons() {
    let fails = |tool: &str, _: &Value| match tool {
        "bash" => Outcome::failed("no such command\n[exit status 127]"),
        "read_file" => Outcome::cancelled(),
        _ => Outcome::failed("a.txt: no such file"),
    };
    play(
        "run frobnicate; replace x with y in a.txt; list src",
        ALL,
        fails,
        expect![[r#"
            (thought) I understand 3 directions:
            1. Run `frobnicate`
            2. Replace `x` with `y` in `a.txt`
            3. List `src`
            > plan: in_progress: Run `frobnicate`
            > plan: pending: Replace `x` with `y` in `a.txt`
            > plan: pending: List `src`
            > bash {"command":"frobnicate"}
            Run `frobnicate`: this did not work.

            ```
            no such command
            [exit status 127]
            ```
            > plan: pending: Run `frobnicate`
            > plan: in_progress: Replace `x` with `y` in `a.txt`
            > plan: pending: List `src`
            > read_file {"path":"a.txt"}
            Replace `x` with `y` in `a.txt`: this was cancelled before it was done.
            > plan: pending: Run `frobnicate`
            > plan: pending: Replace `x` with `y` in `a.txt`
            > plan: in_progress: List `src`
            > list_files {"path":"src"}
            > plan: pending: Run `frobnicate`
            > plan: pending: Replace `x` with `y` in `a.txt`
            > plan: pending: List `src`
            List `src`: this did not work.

            ```
            a.txt: no such file
            ```
            (notice) `rehearsal` answered, a small program that follows plain directions. No language model is configured.
        "#]],
    )
    .await;
}

#[tokio::test]
async fn a_tool_that_is_not_offered_is_not_called() {
    let tools = "list_files read_file update_plan";
    play(
        "write a.txt with Hi; list; replace a with b in c.txt; search for x",
        tools,
        works,
        expect![[r#"
            (thought) I understand 4 directions:
            1. Write `a.txt`
            2. List this folder
            3. Replace `a` with `b` in `c.txt`
            4. Search for `x`
            The session's mode does not offer `write_file`, so nothing was written.
            > plan: pending: Write `a.txt`
            > plan: in_progress: List this folder
            > plan: pending: Replace `a` with `b` in `c.txt`
            > plan: pending: Search for `x`
            > list_files {"path":"."}
            > plan: pending: Write `a.txt`
            > plan: completed: List this folder
            > plan: pending: Replace `a` with `b` in `c.txt`
            > plan: pending: Search for `x`
            In this folder:

            ```
            Cargo.toml
            README.md
            src/
            ```

            The session's mode does not offer `edit_file`, so nothing was changed.

            The session's mode does not offer `grep`, so nothing was searched.
            (notice) `rehearsal` answered, a small program that follows plain directions. No language model is configured.
        "#]],
    )
    .await;
}

#[tokio::test]
async fn without_any_tool_it_only_answers_in_text() {
    play(
        "list",
        "",
        works,
        expect![[r#"
        (thought) I understand one direction: List this folder.
        The session's mode does not offer `list_files`, so nothing was listed.
        (notice) `rehearsal` answered, a small program that follows plain directions. No language model is configured.
    "#]],
    )
    .await;
}

#[tokio::test]
async fn an_unread_file_is_read_and_the_write_tried_again() {
    let exists = |tool: &str, input: &Value| match tool {
        "write_file" => Outcome::failed("a.txt exists and was not read; read it first with read_file"),
        _ => works(tool, input),
    };
    play(
        "write a.txt with Hi",
        ALL,
        exists,
        expect![[r#"
            (thought) I understand one direction: Write `a.txt`.
            > plan: in_progress: Write `a.txt`
            > write_file {"path":"a.txt","content":"Hi\n"}
            > read_file {"path":"a.txt"}
            > write_file {"path":"a.txt","content":"Hi\n"}
            > plan: pending: Write `a.txt`
            Write `a.txt`: this did not work.

            ```
            a.txt exists and was not read; read it first with read_file
            ```
            (notice) `rehearsal` answered, a small program that follows plain directions. No language model is configured.
        "#]],
    )
    .await;
}

#[tokio::test]
async fn a_direction_that_cannot_be_completed_is_not_begun() {
    play(
        "append x to a.txt",
        "read_file",
        works,
        expect![[r#"
        (thought) I understand one direction: Append to `a.txt`.
        The session's mode does not offer `edit_file`, so nothing was changed.
        (notice) `rehearsal` answered, a small program that follows plain directions. No language model is configured.
    "#]],
    )
    .await;
}

#[test]
fn a_call_without_a_result_counts_as_failed() {
    let user = Message::User { id: MessageId::new(), content: vec![Content::text("list")] };
    let call = Part::Call { id: CallId::new(), tool: "list_files".to_owned(), input: Value::Null, origin: None };
    let assistant = Message::Assistant { id: MessageId::new(), parts: vec![call] };
    let mut stage = Stage::new("list_files", works);
    stage.messages = vec![Arc::new(user), Arc::new(assistant)];
    let deltas = answer(&stage.request());
    let text: String = deltas
        .iter()
        .filter_map(|delta| if let Delta::Text(text) = delta { Some(text.as_str()) } else { None })
        .collect();
    assert!(text.starts_with("List this folder: this did not work."), "{text}");
}
