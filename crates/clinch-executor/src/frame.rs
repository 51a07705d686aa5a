//! Frames on a stream: one side writes whole messages, the other reads them back, each with a time
//! limit. Neither knows what the messages mean.

use crate::error::Error;
use crate::stream::Stream;
use crate::system::descriptor::{self, Use, Waited, Wake};
use crate::wire::{HEADER, Header, MAX_HANDSHAKE, MAX_PAYLOAD, TAG, WireError};
use clinch_graph::index::int::{u32_of, usize_of};
use std::io::ErrorKind;
use std::time::{Duration, Instant};

/// How much room there is for what comes: enough for many small messages by one system call.
const ROOM: usize = 1 << 16;
/// A buffer larger than this is given back after use.
const KEPT: usize = 1 << 18;

/// Seals the frames of one direction: a keyed hash over their number, header and payload.
#[derive(Debug)]
pub(crate) struct Seal {
    key: [u8; 32],
    n_frames: u64,
}

impl Seal {
    pub(crate) fn new(key: [u8; 32]) -> Self {
        Self { key, n_frames: 0 }
    }

    /// The tag of the next frame.
    fn next(&mut self, frame: &[u8]) -> blake3::Hash {
        let mut hasher = blake3::Hasher::new_keyed(&self.key);
        hasher.update(&self.n_frames.to_le_bytes());
        hasher.update(frame);
        self.n_frames += 1;
        hasher.finalize()
    }
}

/// Writes frames.
#[derive(Debug)]
pub(crate) struct FrameWriter {
    stream: Stream,
    buffer: Vec<u8>,
    seal: Option<Seal>,
    limit: Duration,
    /// Why a frame was not written to its end: nothing may follow it.
    broken: Option<Error>,
    /// When the last frame was written.
    pub(crate) last: Instant,
}

impl FrameWriter {
    pub(crate) fn new(stream: Stream, limit: Duration) -> Self {
        Self {
            stream,
            buffer: Vec::new(),
            seal: None,
            limit,
            broken: None,
            last: Instant::now(),
        }
    }

    pub(crate) fn seal(&mut self, key: [u8; 32]) {
        self.seal = Some(Seal::new(key));
    }

    /// Writes a frame whose payload `encode` appends. One that is too large is not written at all.
    pub(crate) fn write(
        &mut self,
        kind: u16,
        sequence: u64,
        encode: impl FnOnce(&mut Vec<u8>),
    ) -> Result<(), Error> {
        let until = Instant::now() + self.limit;
        self.write_until(kind, sequence, encode, until)
    }

    /// As [`FrameWriter::write`], until a certain time.
    pub(crate) fn write_until(
        &mut self,
        kind: u16,
        sequence: u64,
        encode: impl FnOnce(&mut Vec<u8>),
        until: Instant,
    ) -> Result<(), Error> {
        if let Some(error) = &self.broken {
            return Err(error.clone());
        }
        self.buffer.clear();
        self.buffer.extend([0; HEADER]);
        encode(&mut self.buffer);
        let size = self.buffer.len() - HEADER;
        if size > MAX_PAYLOAD {
            self.buffer = Vec::new();
            return Err(Error::MessageSize(size));
        }
        let header = Header {
            size: u32_of(size),
            kind,
            sequence,
        };
        if let Some(to) = self.buffer.first_chunk_mut() {
            *to = header.encode();
        }
        if let Some(seal) = &mut self.seal {
            let tag = seal.next(&self.buffer);
            self.buffer.extend(tag.as_bytes().iter().take(TAG));
        }
        let result = self.flush(until);
        self.broken = result.as_ref().err().cloned();
        if self.buffer.capacity() > KEPT {
            self.buffer = Vec::new();
        }
        result
    }

    fn flush(&mut self, until: Instant) -> Result<(), Error> {
        let mut rest = self.buffer.as_slice();
        while !rest.is_empty() {
            let output = self.stream.output();
            match descriptor::write(output, rest, self.stream.output_is_socket()) {
                Ok(n) => rest = rest.get(n..).unwrap_or_default(),
                Err(error) => match error.kind() {
                    ErrorKind::Interrupted => {}
                    ErrorKind::WouldBlock => {
                        let waited = descriptor::wait(output, Use::Write, None, Some(until));
                        if waited.map_err(|error| failed(&error))? == Waited::TimedOut {
                            return Err(Error::Slow(self.limit));
                        }
                    }
                    _ => return Err(failed(&error)),
                },
            }
        }
        self.last = Instant::now();
        Ok(())
    }
}

/// What reading ended by.
#[derive(Debug)]
pub(crate) enum Incoming<'a> {
    /// A message.
    Frame {
        kind: u16,
        sequence: u64,
        payload: &'a [u8],
    },
    /// It is late, or somebody woke the reader.
    Nothing,
}

/// Reads frames.
#[derive(Debug)]
pub(crate) struct FrameReader {
    stream: Stream,
    /// What was read and not used yet is `start..end`.
    buffer: Vec<u8>,
    start: usize,
    end: usize,
    /// The largest payload.
    largest: usize,
    seal: Option<Seal>,
    /// For a message from its first byte to its last.
    limit: Duration,
    begun: Option<Instant>,
    /// The last message was given out, and is used until more is asked for.
    is_used: bool,
    /// Since when the peer has had the time to say something: what we do with a message is not
    /// its silence.
    waiting_since: Instant,
}

impl FrameReader {
    /// Reads messages of the handshake.
    pub(crate) fn new(stream: Stream, limit: Duration) -> Self {
        Self {
            stream,
            buffer: vec![0; ROOM],
            start: 0,
            end: 0,
            largest: MAX_HANDSHAKE,
            seal: None,
            limit,
            begun: None,
            is_used: false,
            waiting_since: Instant::now(),
        }
    }

    /// Since when there was no message, though one was waited for.
    pub(crate) fn waiting_since(&mut self) -> Instant {
        if std::mem::take(&mut self.is_used) {
            let now = Instant::now();
            self.waiting_since = now;
            self.begun = (self.start < self.end).then_some(now);
        }
        self.waiting_since
    }

    /// The handshake is done: messages may be large, and are sealed when there is a key.
    pub(crate) fn open(&mut self, key: Option<[u8; 32]>, limit: Duration) {
        self.limit = limit;
        self.largest = MAX_PAYLOAD;
        self.seal = key.map(Seal::new);
    }

    /// The next message, unless it is `until` or somebody signals `wake`.
    pub(crate) fn next(
        &mut self,
        until: Instant,
        wake: Option<&Wake>,
    ) -> Result<Incoming<'_>, Error> {
        self.waiting_since();
        let (header, size) = loop {
            let wanted = match self.peek()? {
                Some((header, size)) if self.end - self.start >= size => break (header, size),
                Some((_, size)) => size,
                None => HEADER,
            };
            self.make_room(wanted);
            // Answers to answers come at once more often than not, but a call that finds nothing
            // costs as much as one that waits.
            let late = self.begun.map(|begun| begun + self.limit);
            let first = late.map_or(until, |late| late.min(until));
            let waited = descriptor::wait(self.stream.input(), Use::Read, wake, Some(first));
            match waited.map_err(|error| failed(&error))? {
                Waited::Ready => self.fill()?,
                Waited::Woken => {
                    if let Some(wake) = wake {
                        wake.clear();
                    }
                    return Ok(Incoming::Nothing);
                }
                Waited::TimedOut => {
                    if late.is_some_and(|late| late <= Instant::now()) {
                        return Err(Error::Slow(self.limit));
                    }
                    return Ok(Incoming::Nothing);
                }
            }
        };
        let frame = self.start..self.start + size;
        self.start += size;
        self.is_used = true;
        let frame = self.buffer.get(frame).unwrap_or_default();
        let payload = HEADER..HEADER + usize_of(header.size);
        if let Some(seal) = &mut self.seal {
            let (covered, tag) = frame.split_at_checked(payload.end).unwrap_or_default();
            let mut wanted = *seal.next(covered).as_bytes();
            // Comparing whole hashes takes the same time whatever differs.
            let mut found = wanted;
            for (to, from) in found.iter_mut().zip(tag) {
                *to = *from;
            }
            let is_same = blake3::Hash::from_bytes(wanted) == blake3::Hash::from_bytes(found);
            wanted.fill(0);
            if tag.len() != TAG || !is_same {
                return Err(WireError::Tag.into());
            }
        }
        Ok(Incoming::Frame {
            kind: header.kind,
            sequence: header.sequence,
            payload: frame.get(payload).unwrap_or_default(),
        })
    }

    /// The header of the next message, and the size of its frame.
    fn peek(&self) -> Result<Option<(Header, usize)>, Error> {
        let held = self.buffer.get(self.start..self.end).unwrap_or_default();
        let Some(bytes) = held.first_chunk() else {
            return Ok(None);
        };
        let header = Header::decode(*bytes, self.largest)?;
        let tag = if self.seal.is_some() { TAG } else { 0 };
        Ok(Some((header, HEADER + usize_of(header.size) + tag)))
    }

    /// Makes room for a frame: by moving what there is to the front, by a larger buffer for a
    /// larger frame, which is given back later.
    fn make_room(&mut self, wanted: usize) {
        if self.start == self.end {
            (self.start, self.end) = (0, 0);
            if self.buffer.len() > KEPT && wanted <= ROOM {
                self.buffer = vec![0; ROOM];
            }
        }
        if self.start + wanted > self.buffer.len() {
            self.buffer.copy_within(self.start..self.end, 0);
            (self.start, self.end) = (0, self.end - self.start);
            if wanted > self.buffer.len() {
                self.buffer.resize(wanted, 0);
            }
        }
    }

    fn fill(&mut self) -> Result<(), Error> {
        let room = self.buffer.get_mut(self.end..).unwrap_or_default();
        match descriptor::read(self.stream.input(), room) {
            Ok(0) => Err(Error::Closed),
            Ok(n) => {
                self.end += n;
                self.begun.get_or_insert_with(Instant::now);
                Ok(())
            }
            Err(error) => match error.kind() {
                ErrorKind::Interrupted | ErrorKind::WouldBlock => Ok(()),
                _ => Err(failed(&error)),
            },
        }
    }
}

/// A broken connection is a closed one.
fn failed(error: &std::io::Error) -> Error {
    match error.kind() {
        ErrorKind::BrokenPipe | ErrorKind::ConnectionReset | ErrorKind::ConnectionAborted => {
            Error::Closed
        }
        _ => Error::system("use the connection", error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn soon() -> Instant {
        Instant::now() + Duration::from_secs(10)
    }

    fn pair(sealed: bool) -> (FrameWriter, FrameReader) {
        let limit = Duration::from_secs(10);
        let (one, other) = Stream::pair().unwrap();
        let mut writer = FrameWriter::new(one, limit);
        let mut reader = FrameReader::new(other, limit);
        if sealed {
            writer.seal([7; 32]);
        }
        reader.open(sealed.then_some([7; 32]), limit);
        (writer, reader)
    }

    fn write(writer: &mut FrameWriter, payload: &[u8]) -> Result<(), Error> {
        writer.write(5, 6, |out| out.extend_from_slice(payload))
    }

    #[test]
    fn frames_of_all_sizes_come_out_as_they_went_in() {
        for sealed in [false, true] {
            let (mut writer, mut reader) = pair(sealed);
            let sizes = [0, 1, ROOM - HEADER, ROOM, MAX_PAYLOAD, 3, KEPT + 1, 0];
            let sender = std::thread::spawn(move || {
                for size in sizes {
                    write(&mut writer, &vec![b'x'; size]).unwrap();
                }
                let too_large = write(&mut writer, &vec![0; MAX_PAYLOAD + 1]);
                assert_eq!(too_large, Err(Error::MessageSize(MAX_PAYLOAD + 1)));
            });
            for size in sizes {
                match reader.next(soon(), None).unwrap() {
                    Incoming::Frame {
                        kind,
                        sequence,
                        payload,
                    } => {
                        assert_eq!((kind, sequence, payload.len()), (5, 6, size));
                        assert!(payload.iter().all(|&byte| byte == b'x'));
                    }
                    Incoming::Nothing => panic!("late"),
                }
            }
            sender.join().unwrap();
            assert_eq!(reader.next(soon(), None).unwrap_err(), Error::Closed);
        }
    }

    #[test]
    fn a_sealed_frame_cannot_be_repeated_or_changed() {
        let (one, other) = Stream::pair().unwrap();
        let (to, from) = Stream::pair().unwrap();
        let limit = Duration::from_secs(10);
        let mut writer = FrameWriter::new(one, limit);
        writer.seal([7; 32]);
        write(&mut writer, b"abc").unwrap();
        let mut frame = vec![0; HEADER + 3 + TAG];
        assert_eq!(descriptor::read(other.input(), &mut frame).unwrap(), 35);
        let send = |frame: &[u8]| descriptor::write(to.output(), frame, true).unwrap();
        let mut reader = FrameReader::new(from.clone(), limit);
        reader.open(Some([7; 32]), limit);
        send(&frame);
        send(&frame);
        assert!(reader.next(soon(), None).is_ok());
        let again = reader.next(soon(), None).unwrap_err();
        assert_eq!(again, WireError::Tag.into());
        frame[HEADER] ^= 1;
        let mut reader = FrameReader::new(from, limit);
        reader.open(Some([7; 32]), limit);
        send(&frame);
        let changed = reader.next(soon(), None).unwrap_err();
        assert_eq!(changed, WireError::Tag.into());
    }

    #[test]
    fn a_message_that_does_not_end_is_an_error_in_time() {
        let (one, other) = Stream::pair().unwrap();
        let limit = Duration::from_millis(20);
        let mut reader = FrameReader::new(other, limit);
        descriptor::write(one.output(), &[1, 0, 0], true).unwrap();
        assert_eq!(reader.next(soon(), None).unwrap_err(), Error::Slow(limit));
    }

    #[test]
    fn a_peer_that_takes_nothing_is_an_error_in_time() {
        let (one, _other) = Stream::pair().unwrap();
        let limit = Duration::from_millis(20);
        let mut writer = FrameWriter::new(one, limit);
        let payload = vec![0; MAX_PAYLOAD];
        let result = (0..100).try_for_each(|_| write(&mut writer, &payload));
        assert_eq!(result, Err(Error::Slow(limit)));
        // Part of a message is on its way, so there is no next one.
        assert_eq!(write(&mut writer, b""), Err(Error::Slow(limit)));
    }
}
