//! What `acpd ask` and `acpd ctl` show at a terminal: Markdown, diffs, permission questions, tables
//! and the screen of `top`.
//!
//! Text in, text out. Only two modules know that there is a terminal: `style` checks whether stdout
//! and stderr are terminals and how wide they are, and `session_printer` writes. No module here
//! knows the protocol's transport, actors, files or keys.

pub mod age;
pub mod consent;
pub mod diff;
pub mod log_markdown;
mod markdown;
pub mod session_page;
pub mod session_printer;
pub mod session_stats;
pub mod session_tables;
pub mod style;
pub mod table;
pub mod top;
mod wrap;

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
