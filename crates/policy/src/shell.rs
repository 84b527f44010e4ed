//! Parses shell text into its simple commands without running any of it, including those in groups,
//! pipes, loops, functions, substitutions and here-documents. Quotes are removed as the shell would
//! remove them. Words whose value only the shell knows (variables, globs, the output of commands)
//! are marked.
//!
//! Rules that deny are matched against every command found here. Where shells differ, or the
//! grammar is ambiguous, this parser therefore finds a command too many rather than one too few.

#[cfg(test)]
mod fuzz;
mod mentions;
mod plain;
mod programs;
#[cfg(test)]
mod tests;
mod words;

use std::mem::take;

pub(crate) use mentions::{evaluates_later, may_mention};
pub use plain::{PlainWord, plain};
pub use programs::{Programs, base, programs, starts};
pub(crate) use programs::{evaluates_arguments, own_arguments};

/// The deepest nesting that is parsed. Text written by hand is not nested more deeply.
const MAX_NESTING: usize = 40;

/// Keywords after which a command begins.
const KEYWORDS: [&str; 10] = ["if", "then", "elif", "else", "while", "until", "do", "!", "time", "coproc"];

/// The longest text that is parsed, in bytes. Anything longer needs a question.
pub const MAX_COMMAND_BYTES: usize = 32 << 10;

/// The commands that were found in a text.
#[derive(Debug, Default)]
pub struct ShellScript {
    pub commands: Vec<SimpleCommand>,
    /// Whether the text ends inside a construct or is nested too deeply, so that there may be more
    /// commands.
    pub is_incomplete: bool,
}

/// A program with its arguments, as far as they are known, without redirections.
#[derive(Debug, Default)]
pub struct SimpleCommand {
    pub words: Vec<Word>,
    /// Whether its input comes from a pipe, a file or the script itself.
    pub is_fed: bool,
    /// Whether it is inside `((...))`, and therefore probably not a command at all.
    pub is_arithmetic: bool,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Word {
    /// The text without quotes. If the word expands, the text as written, or empty.
    pub text: String,
    /// Whether the shell expands it to another text, or to several words.
    pub expands: bool,
    /// Whether it sets a variable, provided that it comes before the program.
    pub is_assignment: bool,
    /// Whether part of it is quoted. A quoted word is not a keyword.
    pub is_quoted: bool,
}

impl Word {
    fn unknown() -> Self {
        Self { expands: true, ..Self::default() }
    }
}

/// Parses a text into its simple commands.
pub fn read(text: &str) -> ShellScript {
    read_at(text, 0)
}

fn read_at(text: &str, depth: usize) -> ShellScript {
    let mut reader = Reader { chars: text.chars().collect(), depth, ..Reader::default() };
    reader.commands(None);
    reader.script
}

/// Returns the commands in a text that is interpreted as if it were between double quotes.
fn read_quoted(text: &str, depth: usize) -> ShellScript {
    let mut reader = Reader { chars: text.chars().collect(), depth, ..Reader::default() };
    reader.quoted(None, &mut Word::default());
    reader.script
}

/// Returns whether expanding a text would run something.
fn has_substitution(text: &str) -> bool {
    text.contains("$(") || text.contains('`') || text.contains("${")
}

#[derive(Default)]
struct Reader {
    chars: Vec<char>,
    at: usize,
    script: ShellScript,
    /// Here-documents whose text begins on the next line.
    awaited: Vec<Heredoc>,
    depth: usize,
    /// The depth of `((`. Inside it, `<<` is an operator.
    arithmetic: usize,
}

struct Heredoc {
    end: String,
    /// Whether the text is literal, without substitutions.
    is_raw: bool,
    is_indented: bool,
}

/// The state of the list of commands that is being parsed.
#[derive(Default)]
struct CommandList {
    command: SimpleCommand,
    /// The number of open `case` constructs, in which `)` ends a pattern.
    cases: usize,
    pattern_comes: bool,
    /// The number of words of the command that set no variable.
    plain_words: usize,
    /// Whether `time` came before. Its option may precede a keyword.
    after_time: bool,
}

impl CommandList {
    fn is_in_pattern(&self) -> bool {
        self.cases > 0 && (self.pattern_comes || self.first() == Some("case"))
    }

    fn push(&mut self, word: Word) {
        self.plain_words += usize::from(!word.is_assignment);
        self.command.words.push(word);
    }

    fn pop(&mut self) {
        let popped = self.command.words.pop();
        self.plain_words -= usize::from(popped.is_some_and(|word| !word.is_assignment));
    }

    /// Returns whether the list is `for NAME` or `select NAME`, which `do` may follow at once.
    fn awaits_do(&self) -> bool {
        self.command.words.len() == 2 && matches!(self.first(), Some("for" | "select"))
    }

    fn first(&self) -> Option<&str> {
        self.command.words.first().map(|word| word.text.as_str())
    }
}

impl Reader {
    fn peek(&self) -> Option<char> {
        self.chars.get(self.at).copied()
    }

    fn ahead(&self, text: &str) -> bool {
        let rest = &self.chars[self.at..];
        text.chars().enumerate().all(|(index, c)| rest.get(index) == Some(&c))
    }

    fn next(&mut self) -> Option<char> {
        let c = self.peek()?;
        self.at += 1;
        Some(c)
    }

    fn skip(&mut self, text: &str) -> bool {
        let found = self.ahead(text);
        if found {
            self.at += text.chars().count();
        }
        found
    }

    /// Parses commands up to the end of the text, or to the closing parenthesis `end`.
    fn commands(&mut self, end: Option<char>) {
        self.descend();
        let mut list = CommandList::default();
        loop {
            while self.skip(" ") || self.skip("\t") || self.skip("\\\n") {}
            let Some(c) = self.peek() else {
                self.script.is_incomplete |= end.is_some();
                break;
            };
            match c {
                ')' if list.is_in_pattern() => {
                    self.at += 1;
                    self.finish(&mut list, false);
                    list.pattern_comes = false;
                }
                ')' if end == Some(')') => {
                    self.at += 1;
                    break;
                }
                // What looks like arithmetic may be a group after all, and `#` may begin a comment.
                '#' if self.arithmetic > 0 => {
                    self.script.is_incomplete = true;
                    self.at += 1;
                }
                '#' => while self.peek().is_some_and(|c| c != '\n') && self.next().is_some() {},
                '\n' => {
                    self.at += 1;
                    self.finish(&mut list, false);
                    self.take_heredocs();
                }
                '&' if self.ahead("&>") => self.redirect(&mut list),
                ';' | '&' | ')' => {
                    let ends_case = self.skip(";;") || self.skip(";&");
                    self.at += usize::from(!ends_case);
                    self.finish(&mut list, false);
                    list.pattern_comes |= ends_case;
                }
                '|' => {
                    let is_or = self.skip("||");
                    self.at += usize::from(!is_or);
                    self.finish(&mut list, !is_or);
                }
                '(' => {
                    self.finish(&mut list, false);
                    self.group();
                }
                '<' | '>' if self.ahead("<(") || self.ahead(">(") => {
                    self.at += 1;
                    self.group();
                    list.push(Word::unknown());
                }
                '<' | '>' => self.redirect(&mut list),
                _ => self.push_word(&mut list),
            }
        }
        self.finish(&mut list, false);
        self.depth -= 1;
    }

    fn descend(&mut self) {
        self.depth += 1;
        if self.depth > MAX_NESTING {
            self.script.is_incomplete = true;
            self.at = self.chars.len();
        }
    }

    /// Parses a parenthesis and its contents.
    fn group(&mut self) {
        let is_arithmetic = self.ahead("((");
        self.at += 1;
        self.arithmetic += usize::from(is_arithmetic);
        self.commands(Some(')'));
        self.arithmetic -= usize::from(is_arithmetic);
    }

    fn push_word(&mut self, list: &mut CommandList) {
        let before = self.at;
        let word = self.word();
        let is_first = list.plain_words == 0;
        let after_time = std::mem::take(&mut list.after_time);
        match word.text.as_str() {
            // A brace is an ordinary word here, and a command may follow it.
            "{" | "}" if self.at == before + 1 => return self.finish(list, list.command.is_fed),
            _ if word.is_quoted => {}
            "-p" | "--" if after_time => {
                list.after_time = true;
                return;
            }
            "do" if list.awaits_do() => return self.finish(list, list.command.is_fed),
            keyword if is_first && KEYWORDS.contains(&keyword) => {
                list.after_time = keyword == "time";
                return;
            }
            "case" if is_first => list.cases += 1,
            "esac" if is_first => {
                list.cases = list.cases.saturating_sub(1);
                list.pattern_comes = false;
            }
            _ => {}
        }
        list.push(word);
    }

    /// Completes a command. `feeds_next` is whether the next one reads its output.
    fn finish(&mut self, list: &mut CommandList, feeds_next: bool) {
        let mut command = take(&mut list.command);
        list.plain_words = 0;
        list.after_time = false;
        command.is_arithmetic = self.arithmetic > 0;
        list.command.is_fed = feeds_next;
        if command.words.is_empty() {
            return;
        }
        list.pattern_comes |= command.words[0].text == "case";
        self.script.commands.push(command);
    }

    fn redirect(&mut self, list: &mut CommandList) {
        // A number directly before the operator belongs to it.
        let is_number = |word: &Word| !word.text.is_empty() && word.text.chars().all(|c| c.is_ascii_digit());
        if self.at > 0 && self.chars[self.at - 1].is_ascii_digit() && list.command.words.last().is_some_and(is_number) {
            list.pop();
        }
        let heredoc = self.arithmetic == 0 && self.ahead("<<") && !self.ahead("<<<");
        let is_indented = heredoc && self.ahead("<<-");
        list.command.is_fed |= self.ahead("<");
        if is_indented {
            self.at += 3;
        } else {
            while self.peek().is_some_and(|c| "<>&|".contains(c)) && !self.ahead("<(") && !self.ahead(">(") {
                self.at += 1;
            }
        }
        while self.skip(" ") || self.skip("\t") || self.skip("\\\n") {}
        let from = self.at;
        let target = self.word();
        if heredoc {
            let is_raw = self.chars[from..self.at].iter().any(|c| "'\"\\".contains(*c));
            self.awaited.push(Heredoc { end: target.text, is_raw, is_indented });
        }
    }

    fn take_heredocs(&mut self) {
        for heredoc in take(&mut self.awaited) {
            let mut body = String::new();
            while self.at < self.chars.len() {
                let line: String = self.chars[self.at..].iter().take_while(|c| **c != '\n').collect();
                self.at = (self.at + line.chars().count() + 1).min(self.chars.len());
                let shown = if heredoc.is_indented { line.trim_start_matches('\t') } else { &line };
                if shown == heredoc.end {
                    break;
                }
                body.push_str(&line);
                body.push('\n');
            }
            if !heredoc.is_raw {
                self.adopt(read_quoted(&body, self.depth));
            }
        }
    }

    fn adopt(&mut self, script: ShellScript) {
        self.script.commands.extend(script.commands);
        self.script.is_incomplete |= script.is_incomplete;
    }
}
