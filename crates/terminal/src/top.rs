//! The screen of `ctl top`: its state, a question that fills the screen, and the drawing of both.
//! Reads no keys and knows no daemon.

mod question_pager;
mod state;
mod view;

pub use question_pager::QuestionPager;
pub use state::{Order, Snapshot, TopState};
pub use view::draw;
