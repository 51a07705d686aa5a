//! What a connection goes over: two descriptors, or one used both ways. Pipes, sockets of the
//! host and of the net all do.

use crate::error::Error;
use crate::system::descriptor;
use std::net::{TcpStream, ToSocketAddrs};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::time::Duration;

/// A stream of bytes each way.
#[derive(Clone, Debug)]
pub struct Stream {
    input: Arc<OwnedFd>,
    output: Arc<OwnedFd>,
    output_is_socket: bool,
}

impl Stream {
    /// A stream that reads from one descriptor and writes to another. Both stop blocking.
    ///
    /// # Errors
    /// The system does not do it.
    pub fn new(input: OwnedFd, output: OwnedFd) -> Result<Self, Error> {
        Self::over(Arc::new(input), Arc::new(output))
    }

    /// A stream over a socket.
    ///
    /// # Errors
    /// The system does not do it.
    pub fn socket(socket: impl Into<OwnedFd>) -> Result<Self, Error> {
        let socket = Arc::new(socket.into());
        Self::over(Arc::clone(&socket), socket)
    }

    /// Two ends of one stream.
    ///
    /// # Errors
    /// The system does not do it.
    pub fn pair() -> Result<(Self, Self), Error> {
        let (one, other) = UnixStream::pair().map_err(failed)?;
        Ok((Self::socket(one)?, Self::socket(other)?))
    }

    /// A stream over descriptors that the process was started with for this purpose, by their
    /// numbers, which may be the same.
    ///
    /// # Errors
    /// They are not open.
    pub fn inherited(input: i32, output: i32) -> Result<Self, Error> {
        let open = |number| descriptor::inherited(number).map_err(failed);
        if input == output {
            return Self::socket(open(input)?);
        }
        Self::new(open(input)?, open(output)?)
    }

    /// A stream to `HOST:PORT`, with a time limit for each of the host's addresses.
    ///
    /// # Errors
    /// Nobody answers there.
    pub fn connect(address: &str, limit: Duration) -> Result<Self, Error> {
        let failed = |error: std::io::Error| Error::system("connect", &error);
        let mut last = Error::System {
            what: "connect",
            kind: std::io::ErrorKind::AddrNotAvailable,
        };
        for address in address.to_socket_addrs().map_err(failed)? {
            match TcpStream::connect_timeout(&address, limit) {
                Ok(stream) => return Self::tcp(stream),
                Err(error) => last = failed(error),
            }
        }
        Err(last)
    }

    /// A stream over TCP, which sends small messages at once.
    ///
    /// # Errors
    /// The system does not do it.
    pub fn tcp(stream: TcpStream) -> Result<Self, Error> {
        stream.set_nodelay(true).map_err(failed)?;
        Self::socket(stream)
    }

    fn over(input: Arc<OwnedFd>, output: Arc<OwnedFd>) -> Result<Self, Error> {
        descriptor::set_nonblocking(input.as_fd()).map_err(failed)?;
        descriptor::set_nonblocking(output.as_fd()).map_err(failed)?;
        Ok(Self {
            output_is_socket: descriptor::is_socket(output.as_fd()),
            input,
            output,
        })
    }

    /// Ends a socket both ways, whoever else holds it, so that the peer sees the end. A pipe ends
    /// when the last holder drops it.
    pub(crate) fn shut_down(&self) {
        descriptor::shut_down(self.output.as_fd());
    }

    pub(crate) fn input(&self) -> BorrowedFd<'_> {
        self.input.as_fd()
    }

    pub(crate) fn output(&self) -> BorrowedFd<'_> {
        self.output.as_fd()
    }

    pub(crate) fn output_is_socket(&self) -> bool {
        self.output_is_socket
    }
}

fn failed(error: std::io::Error) -> Error {
    Error::system("use a descriptor", &error)
}
