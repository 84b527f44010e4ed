//! What every model is told before the conversation: who it is and where it works.

use domain::SessionState;

pub(super) fn system(state: &SessionState) -> String {
    let mut text = format!(
        "You are a coding agent that works in a person's editor through acpd. Be brief and exact. Use the tools to look \
         before you answer and before you change anything.\n\nWorking folder: {}\nMode: {}\n",
        state.cwd.display(),
        state.mode.id(),
    );
    for root in &state.extra_roots {
        text.push_str(&format!("Further folder: {}\n", root.display()));
    }
    text
}
