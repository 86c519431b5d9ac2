"""The provisioner: a service that sizes pools of builders by their queues."""
