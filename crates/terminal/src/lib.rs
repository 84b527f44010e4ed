//! Renders what `acpd ask` and `acpd ctl` show at a terminal: Markdown, diffs, permission
//! questions, tables and the screen of `top`.
//!
//! Text in, text out. Only two modules access the terminal: `style` checks whether stdout and
//! stderr are terminals and how large they are, and `screen` writes. No module here knows the
//! protocol's transport, actors, files or keys.

pub mod age;
mod answer_text;
pub mod consent;
pub mod diff;
pub mod excerpt;
mod fold;
pub mod fuzzy;
mod highlight;
mod live_area;
pub mod log_markdown;
mod markdown;
pub mod picker;
mod progress;
mod screen;
pub mod session_page;
pub mod session_printer;
pub mod session_stats;
pub mod session_tables;
pub mod status_line;
pub mod style;
pub mod table;
mod text_flow;
pub mod top;

use domain::card::PermissionsCard;

/// One line per permission rule of a session. Rules from answers given in the session come first.
pub fn permission_rules(card: &PermissionsCard) -> impl Iterator<Item = String> {
    let remembered = card.remembered.iter().map(|rule| {
        let verdict = if rule.allow { "allow" } else { "deny" };
        format!("{verdict:<9} {} (answered in this session)", rule.what)
    });
    let configured = [("allow", &card.rules.allow), ("ask", &card.rules.ask), ("deny", &card.rules.deny)];
    let configured = configured
        .into_iter()
        .flat_map(|(verdict, rules)| rules.iter().map(move |rule| format!("{verdict:<9} {rule} (configured)")));
    remembered.chain(configured)
}
