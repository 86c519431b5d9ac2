"""Kombu's Redis transport for a host, which tolerates any message and writes no bindings."""

from __future__ import annotations

from typing import Any

from kombu.transport import redis

from workers.refused import RefusedMessages


class HostQoS(redis.QoS):  # type: ignore[misc]  # kombu has no types
    """A QoS without acknowledgements, so that no messages need to be restored."""

    def restore_visible(self, *_: Any, **__: Any) -> None:
        """Do nothing: it would need scripts and keys that all hosts share."""


class HostChannel(redis.Channel):  # type: ignore[misc]  # nor here
    """Reads the host's list. No message goes through an exchange: the scheduler writes the list."""

    QoS = HostQoS

    def _queue_bind(self, *_: Any) -> None:
        """Do nothing: a binding would stay in Redis after the host has ended."""

    def _brpop_read(self, **options: Any) -> Any:
        try:
            return super()._brpop_read(**options)
        except (ValueError, RecursionError) as error:  # no UTF-8, no JSON, or too deep
            self.connection.refused.add(error)
            return True


def host_transport(messages: RefusedMessages) -> type:
    """Return a transport that counts dropped messages in ``refused``."""

    class HostTransport(redis.Transport):  # type: ignore[misc]  # nor here
        """Delivers valid messages, and drops the rest."""

        Channel = HostChannel
        refused = messages

        def _deliver(self, message: Any, queue: str) -> None:
            try:
                super()._deliver(message, queue)
            except redis.Transport.connection_errors:
                raise
            except Exception as error:  # noqa: BLE001 - whatever it is, the host plays on
                messages.add(f"{type(error).__name__}: {error}")

    return HostTransport
