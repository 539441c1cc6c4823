"""What passes of several topics share."""
