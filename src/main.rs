//! Parses the command line, dispatches to a subcommand, and returns the exit status.

use std::io::{self, IsTerminal};
use std::panic;
use std::process::ExitCode;

use acpd::cli::{Cli, ColorWhen, Command, LoginArgs};
use acpd::client::Refused;
use acpd::commands::ctl::NoDaemon;
use acpd::commands::serve::CannotServe;
use acpd::commands::session_lookup::NoSession;
use acpd::commands::{self, Ending};
use acpd::paths::Paths;
use acpd::{environment, launch};
use domain::escape;
use terminal::style::ColorChoice;

/// EX_CONFIG of sysexits.h. The systemd unit does not restart the service after this status; the
/// next client starts it.
const CANNOT_SERVE: u8 = 78;

/// The exit status if no model is configured, or its key is missing or wrong.
const NO_MODEL: u8 = 7;

fn main() -> ExitCode {
    // This comes first, because it runs with every command of the agent: no parser, no runtime, no
    // log.
    let mut arguments = std::env::args_os().skip(1);
    if arguments.next().is_some_and(|first| first == process::SUBCOMMAND) {
        return tools::run_helper(arguments);
    }
    // Editors start `acpd acp`, so it skips the parser of all subcommands, which takes half a
    // millisecond to build. If the bridge's program is missing, this returns, and the parser is
    // built after all.
    if std::env::args_os().skip(1).eq(["acp"]) {
        environment::become_bridge(None, None);
    }
    exit_quietly_when_stdout_is_closed();
    commands::completions::answer_shell();
    let cli = Cli::read();
    if cli.environment_follows {
        if let Err(error) = environment::take_over() {
            return exit_code(Err(error));
        }
    } else {
        if let Command::Acp(args) = &cli.command
            && !args.login
        {
            environment::become_bridge(cli.socket.as_deref(), args.agent.as_deref());
        }
        if cli.is_long_running() {
            environment::conceal();
        }
    }
    terminal::style::choose_colors(match cli.color {
        ColorWhen::Auto => ColorChoice::Auto,
        ColorWhen::Always => ColorChoice::Always,
        ColorWhen::Never => ColorChoice::Never,
    });
    exit_code(dispatch(cli))
}

/// Exits without a message when stdout is closed, as in `acpd ctl logs | head`. Printing then
/// panics, and the default hook would report a defect.
fn exit_quietly_when_stdout_is_closed() {
    let usual = panic::take_hook();
    panic::set_hook(Box::new(move |panic| {
        if panic.payload_as_str().is_some_and(|said| said.starts_with("failed printing to stdout: Broken pipe")) {
            std::process::exit(0);
        }
        usual(panic);
    }));
}

fn dispatch(cli: Cli) -> anyhow::Result<Ending> {
    let paths = Paths::find(cli.socket.as_deref())?;
    // These subcommands use a running daemon, wherever it listens. The bridge and `ask` find it
    // each time they connect.
    let paths = match cli.command {
        Command::Ctl(_) | Command::Doctor(_) | Command::Install(_) | Command::Uninstall(_) => {
            launch::find_running(&paths)
        }
        _ => paths,
    };
    match cli.command {
        Command::Serve(args) => commands::serve::run(&paths, &args),
        Command::Acp(args) if args.login => commands::login::run(&paths, &LoginArgs::default()),
        Command::Acp(args) => commands::acp::run(&paths, args.agent),
        Command::Ask(args) => commands::ask::run(&paths, &args),
        Command::Ctl(args) => commands::ctl::run(&paths, &args),
        Command::Login(args) => commands::login::run(&paths, &args),
        Command::Logout(args) => commands::login::forget(&paths, &args),
        Command::Setup(args) => commands::setup::run(&paths, &args),
        Command::Doctor(args) => commands::doctor::run(&paths, &args),
        Command::Models(args) => commands::models::run(&paths, &args),
        Command::Agents(args) => commands::agents::run(&paths, &args),
        Command::Config(args) => commands::config::run(&paths, &args),
        Command::Install(args) => commands::install::run(&paths, &args),
        Command::Uninstall(args) => commands::install::uninstall(&paths, &args),
        Command::Completions(args) => commands::completions::run(&args),
        Command::Man(args) => commands::man::run(&args),
    }
}

/// Returns the exit status: 0 for success, 1 for failure, 2 for a wrong command line (clap's own),
/// 3 if no daemon runs, 4 if there is no such session, 5 for a turn that ended at a limit, 6 if the
/// model refused, 7 if no model is configured, 130 if the user cancelled. Keep `--help` and
/// docs/ctl.md in step.
fn exit_code(result: anyhow::Result<Ending>) -> ExitCode {
    match result {
        Ok(Ending::Done) => ExitCode::SUCCESS,
        Ok(Ending::AtLimit) => ExitCode::from(5),
        Ok(Ending::Refused) => ExitCode::from(6),
        Ok(Ending::NoModel) => ExitCode::from(NO_MODEL),
        Ok(Ending::Cancelled) => ExitCode::from(130),
        Err(error) => {
            let text = format!("acpd: {error:#}");
            // The message may quote a server or a file, so invisible characters are escaped on a
            // terminal.
            eprintln!("{}", if io::stderr().is_terminal() { escape::text(&text) } else { text.as_str().into() });
            if error.is::<NoDaemon>() {
                ExitCode::from(3)
            } else if error.is::<NoSession>() {
                ExitCode::from(4)
            } else if error.downcast_ref::<Refused>().is_some_and(Refused::lacks_key) {
                ExitCode::from(NO_MODEL)
            } else if error.is::<CannotServe>() {
                ExitCode::from(CANNOT_SERVE)
            } else {
                ExitCode::FAILURE
            }
        }
    }
}
