//! Where an executor process finds its controller.

use super::{Executor, call};
use crate::error::Error;
use crate::stream::Stream;
use crate::system::process;
use std::net::{SocketAddr, TcpListener};
use std::str::FromStr;

/// Where the controller is.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Endpoint {
    /// At the other end of descriptors that the process was started with: one to read from, one
    /// to write to, which may be the same.
    Descriptors(i32, i32),
    /// It connects to this `HOST:PORT`.
    Listen(String),
    /// It listens at this `HOST:PORT`.
    Connect(String),
}

impl FromStr for Endpoint {
    type Err = String;

    /// Reads `filedescs=IN,OUT`, `listen=HOST:PORT` or `connect=HOST:PORT`.
    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = || {
            format!("'{text}' is none of filedescs=IN,OUT, listen=HOST:PORT and connect=HOST:PORT")
        };
        let (kind, value) = text.split_once('=').ok_or_else(wrong)?;
        let number = |text: &str| text.parse().ok().filter(|&number: &i32| number >= 0);
        match kind {
            "filedescs" => {
                let (input, output) = value.split_once(',').ok_or_else(wrong)?;
                let numbers = number(input).zip(number(output)).ok_or_else(wrong)?;
                Ok(Self::Descriptors(numbers.0, numbers.1))
            }
            "listen" if value.contains(':') => Ok(Self::Listen(value.to_owned())),
            "connect" if value.contains(':') => Ok(Self::Connect(value.to_owned())),
            _ => Err(wrong()),
        }
    }
}

impl Executor {
    /// Serves one controller in a process that is there for nothing else: signals are what a
    /// fresh program finds, and the process ends with status 1 when linked code that is still
    /// running keeps it from ending in order.
    ///
    /// Who listens tells `listening` where, and hangs up on everybody who does not know the
    /// secret until somebody does. Over the net frames are sealed.
    ///
    /// # Errors
    /// There is no controller, or what [`Executor::serve`] says.
    pub fn run_process(
        &self,
        endpoint: &Endpoint,
        listening: impl FnOnce(SocketAddr),
    ) -> Result<(), Error> {
        process::reset_signals();
        let sealed = self.sealed || !matches!(endpoint, Endpoint::Descriptors(..));
        let executor = Self {
            sealed,
            names_process: true,
            ..self.clone()
        };
        let served = match endpoint {
            Endpoint::Descriptors(input, output) => {
                executor.serve(Stream::inherited(*input, *output)?)
            }
            Endpoint::Listen(address) => executor.listen(address, listening),
            Endpoint::Connect(address) => {
                executor.serve(Stream::connect(address, self.limits.handshake)?)
            }
        };
        if matches!(served, Err(Error::StillRunning(_))) {
            process::exit_now(1);
        }
        served
    }

    fn listen(&self, address: &str, listening: impl FnOnce(SocketAddr)) -> Result<(), Error> {
        let failed = |error: std::io::Error| Error::system("listen", &error);
        let listener = TcpListener::bind(address).map_err(failed)?;
        listening(listener.local_addr().map_err(failed)?);
        let context = call::new_context();
        loop {
            let (socket, _) = listener.accept().map_err(failed)?;
            let stream = Stream::tcp(socket)?;
            if let Ok(opened) = self.open(stream.clone(), context) {
                drop(listener);
                return self.run(stream, opened, context);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn endpoints() {
        let of = |text: &str| text.parse::<Endpoint>();
        assert_eq!(of("filedescs=3,4"), Ok(Endpoint::Descriptors(3, 4)));
        assert_eq!(of("listen=[::1]:0"), Ok(Endpoint::Listen("[::1]:0".into())));
        assert_eq!(of("connect=a:1"), Ok(Endpoint::Connect("a:1".into())));
        for wrong in [
            "filedescs=3",
            "filedescs=3,-1",
            "filedescs=,",
            "listen=a",
            "3,4",
        ] {
            assert!(of(wrong).is_err(), "{wrong}");
        }
    }
}
