//! Lets the user choose from a list at the terminal, by typing and with the arrow keys.

use anyhow::{Context, bail};
use futures_util::StreamExt;
use signal_hook::consts::SIGCONT;
use signal_hook_tokio::Signals;
use terminal::picker::Picker;

use super::keys::{self, Key, Keys};
use super::output::Output;

/// Returns the index of the chosen entry, or None if the user closed the list.
pub(super) async fn pick(
    output: &mut Output,
    signals: &mut Signals,
    mut picker: Picker,
) -> anyhow::Result<Option<usize>> {
    if !output.is_live() || !keys::can_type() {
        bail!("choosing from a list needs a terminal");
    }
    let mut typed = Keys::begin().context("cannot read the terminal")?;
    let chosen = loop {
        output.overlay(Some(&picker))?;
        tokio::select! {
            key = typed.next() => match key {
                None | Some(Key::Escape) => break None,
                Some(Key::Enter) => break picker.chosen(),
                // Pasted text chooses nothing.
                Some(Key::NewLine) => {}
                Some(Key::Letter(letter) | Key::Pasted(letter)) => picker.push(letter),
                Some(Key::Backspace) => picker.erase(),
                Some(Key::EraseLine | Key::EraseWord) => picker.clear(),
                Some(Key::Up) => picker.move_by(-1),
                Some(Key::Down) => picker.move_by(1),
            },
            signal = signals.next() => match signal {
                Some(SIGCONT) => typed.resume()?,
                _ => break None,
            },
        }
    };
    output.overlay(None)?;
    Ok(chosen)
}
