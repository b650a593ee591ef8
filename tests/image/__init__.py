"""The image as it is shipped: built, started without rights, fed, asked and stopped by podman. `make image`."""
