"""What containers should request: from usage to VPA's four amounts."""
